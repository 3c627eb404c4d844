-- include: queue
--
-- configure(queue, max_length, max_running, rate, fair_by, limits, elsewhere, metrics, tasks): what enqueue and claim must know of the file.
--
-- KEYS  1 ns:{q}
-- ARGV  1 max_length · 2 max_running · 3 rate, "<ms between two jobs> <burst>"; each empty where there is no limit ·
--       4 fair_by: arguments, with a comma between them; empty: none
--       5 limits: JSON {task: {by, max_running, every, burst}}, of those of the tasks that have one · 6 elsewhere: JSON {task: queue},
--         of tasks with a limit that live in another queue; empty: none · 7 metrics: 1, or empty: nothing is counted
--       then per task that lives in the queue: name, "priority expires_ms" (expires may be empty)
-- reply OK
--
-- moves nothing; the next claims look at all held jobs again where a limit of a task changes, and place all jobs again for another fair_by
-- touches conf wake held again tenants

local LIMITS = { 'max_length', 'max_running', 'rate' }
local before, changed = redis.call('HMGET', CONF, unpack(LIMITS)), false
for i, name in ipairs(LIMITS) do
  if ARGV[i] == '' then
    redis.call('HDEL', CONF, name)
  else
    redis.call('HSET', CONF, name, ARGV[i])
  end
  changed = changed or (before[i] or '') ~= ARGV[i]
end
-- without it jobs keep their turns as places, which are in front of all arrivals
local fair = redis.call('HMGET', CONF, 'fair', 'placing')
if (fair[1] or fair[2] and fair[2]:match('^%S+') or '') ~= ARGV[4] then
  redis.call('HDEL', CONF, 'fair', 'placing', 'gaps')
  redis.call('DEL', ROOT .. ':tenants')
  if ARGV[4] ~= '' then redis.call('HSET', CONF, redis.call('EXISTS', QUEUE) == 1 and 'placing' or 'fair', ARGV[4]) end
  changed = true
end
if ARGV[6] == '' then
  redis.call('HDEL', CONF, 'elsewhere')
else
  redis.call('HSET', CONF, 'elsewhere', ARGV[6])
end
if ARGV[7] == '' then
  redis.call('HDEL', CONF, 'metrics')
else
  redis.call('HSET', CONF, 'metrics', ARGV[7])
end
-- tasks that are gone stay: another daemon's file may still have them
for i = 8, #ARGV, 2 do redis.call('HSET', CONF, 'task:' .. ARGV[i], ARGV[i + 1]) end
-- limits of other tasks stay, too; and where jobs are held, it stays known that a claim must look at them
local known, limits, is_any = redis.call('HGET', CONF, 'limits'), cjson.decode(ARGV[5]), false
local all = cjson.decode(known or '{}')
local function text_of(limit) return limit and table.concat({ table.concat(limit.by, ','), limit.max_running or '', limit.every or '', limit.burst or '' }, ' ') end
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
-- a dispatcher that a limit has stopped is noted as waiting only where another job's end will wake it
if changed then
  -- of a queue with a limit, or with tenants, no job is given away
  redis.call('SET', WAKE, '1', 'XX', 'KEEPTTL')
  redis.pcall('PUBLISH', WAKE, 'ready')
end
return redis.status_reply('OK')
