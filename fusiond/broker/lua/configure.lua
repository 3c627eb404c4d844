-- include: queue
--
-- configure(queue, max_length, max_running, rate, fair_by, limits, elsewhere, metrics, tasks): what enqueue and claim
-- need to know of the file
--
-- KEYS  1 ns:{q}
-- ARGV  1 max_length · 2 max_running · 3 rate, "<ms between two jobs> <burst>"; each is empty if there is no limit
--       4 fair_by: arguments, separated by commas; empty: none
--       5 limits: JSON {task: {by, max_running, every, burst}}, of the tasks with a limit
--       6 elsewhere: JSON {task: queue}, of tasks with a limit that are in another queue; empty: none
--       7 metrics: 1; empty: nothing is counted
--       then per task of the queue: name, "priority expires_ms" (expires may be empty)
-- reply OK
--
-- moves nothing; the next claims check all held jobs if a task's limit changes, and assign new turns for another
-- fair_by
-- touches conf wake held again tenants

local function set(name, value)
  if value == '' then redis.call('HDEL', CONF, name) else redis.call('HSET', CONF, name, value) end
end
local LIMITS = { 'max_length', 'max_running', 'rate' }
local before, changed = redis.call('HMGET', CONF, unpack(LIMITS)), false
for i, name in ipairs(LIMITS) do
  set(name, ARGV[i])
  changed = changed or (before[i] or '') ~= ARGV[i]
end
-- without new turns the jobs would keep their old ones, which precede all arrivals
local fair = redis.call('HMGET', CONF, 'fair', 'placing')
if (fair[1] or fair[2] and fair[2]:match('^%S+') or '') ~= ARGV[4] then
  redis.call('HDEL', CONF, 'fair', 'placing', 'gaps')
  redis.call('DEL', ROOT .. ':tenants')
  if ARGV[4] ~= '' then redis.call('HSET', CONF, redis.call('EXISTS', QUEUE) == 1 and 'placing' or 'fair', ARGV[4]) end
  changed = true
end
set('elsewhere', ARGV[6])
set('metrics', ARGV[7])
-- tasks that this file lacks are kept: another daemon's file may have them
for i = 8, #ARGV, 2 do redis.call('HSET', CONF, 'task:' .. ARGV[i], ARGV[i + 1]) end
-- limits of other tasks are kept, too; and while jobs are held, `limits` stays, as a claim must check them
local known, limits, is_any = redis.call('HGET', CONF, 'limits'), cjson.decode(ARGV[5]), false
local all = cjson.decode(known or '{}')
local function text_of(limit)
  local by = limit and table.concat(limit.by, ',')
  return limit and table.concat({ by, limit.max_running or '', limit.every or '', limit.burst or '' }, ' ')
end
for i = 8, #ARGV, 2 do
  if text_of(all[ARGV[i]]) ~= text_of(limits[ARGV[i]]) then
    all[ARGV[i]], changed, is_any = limits[ARGV[i]], true, true
  end
end
if is_any or known == '{}' then
  local is_held = redis.call('EXISTS', ROOT .. ':held') == 1
  if is_any and is_held then redis.call('ZUNIONSTORE', ROOT .. ':again', 1, ROOT .. ':again', 'WEIGHTS', 0) end
  if next(all) or is_held then
    redis.call('HSET', CONF, 'limits', next(all) and cjson.encode(all) or '{}')
  else
    redis.call('HDEL', CONF, 'limits')
  end
end
-- a dispatcher that a limit has stopped waits in WAKE only if the end of another job will wake it
if changed then
  -- in a queue with a limit or tenants no enqueue claims its job
  redis.call('SET', WAKE, '1', 'XX', 'KEEPTTL')
  redis.pcall('PUBLISH', WAKE, 'ready')
end
return redis.status_reply('OK')
