-- include: now queue many score wake line_up store
--
-- enqueue(queue, jobs, confirmed): stores new jobs, by id; a repeat of the same job changes nothing.
--
-- KEYS  1 ns:{q}
-- ARGV  per job: id, task, args, priority, n, then n pairs of
--         at (epoch ms) · delay (ms from now, or from `at` if that stands before it and is to come) · expires (ms from now) · header (raw JSON)
--       behind the jobs, where a WAIT or WAITAOF follows: 1
-- reply a digit per job: 0 stored · 1 the same job was there · 2 the id is another job's · 3 the queue is full
--
-- moves      -> queue       at once, behind its priority
--            -> scheduled   while its time is to come
-- A call stores all its new jobs or, at max_length, none.
-- touches conf queue scheduled seq job wake

-- 1. look: every error must come before the first write
local room = tonumber(redis.call('HGET', CONF, 'max_length')) or math.huge
room = room - redis.call('ZCARD', QUEUE) - redis.call('ZCARD', SCHEDULED)

-- same(key, task, args): whether the hash that is there was made of the same body.
local function same(key, task, args)
  local there = redis.pcall('HMGET', key, 'task', 'args')
  return there[1] == task and there[2] == args
end

local replies, fresh, places, seen = {}, {}, {}, {}
local at, n = 1, 0
while ARGV[at + 1] do
  n = n + 1
  local id = ARGV[at]
  local twin = seen[id]
  if twin then
    replies[n] = (ARGV[twin + 1] == ARGV[at + 1] and ARGV[twin + 2] == ARGV[at + 2]) and '1' or '2'
  elseif redis.call('EXISTS', JOB .. id) == 1 then
    replies[n] = same(JOB .. id, ARGV[at + 1], ARGV[at + 2]) and '1' or '2'
  else
    replies[n] = '0'
    fresh[#fresh + 1], places[#places + 1], seen[id] = at, n, at
  end
  at = at + 5 + 2 * ARGV[at + 4]
end

if #fresh == 0 then
  -- What follows confirms only what its own connection has written, and another one may have stored the job.
  if ARGV[at] and replies[1] == '1' then
    redis.call('ZREM', QUEUE, '')  -- at maxmemory, too
    redis.call('HSET', JOB .. ARGV[1], 'task', ARGV[2])
  end
  return table.concat(replies)
end
if #fresh > room then
  for i = 1, #places do replies[places[i]] = '3' end
  return table.concat(replies)
end

-- 2. write
-- options(first, n): what a job has beside id, task, args and priority -> hash fields, due
local function options(first, n)
  local fields, due = {}, 0
  for i = first, first + 2 * n - 1, 2 do
    local name, value = ARGV[i], ARGV[i + 1]
    if name == 'delay' then
      due = math.max(due, now) + value
    elseif name == 'at' then
      due = tonumber(value)
    elseif name == 'expires' then
      add(fields, 'expires_at', now + value)
    else
      add(fields, name, value)
    end
  end
  return fields, due
end

local seq = redis.call('INCRBY', SEQ, #fresh) - #fresh
for i, first in ipairs(fresh) do
  local fields, due = options(first + 5, ARGV[first + 4])
  store(ARGV[first], ARGV[first + 1], ARGV[first + 2], (255 - ARGV[first + 3]) * BAND + seq + i, due, fields)
end
if line_up() then wake() end
return table.concat(replies)
