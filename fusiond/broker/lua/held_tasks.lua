-- include: now queue batches score text job events ready places held_tasks
--
-- held_tasks(queue, serves, fail_after, tasks): of each task with held jobs: since when nobody can run them, and what
-- to do
--
-- KEYS  1 ns:{q}
-- ARGV  1 1: a living worker group serves the queue · 2 fail_after, ms
--       then pairs: a task that one of these groups can run, 1: each of them can
-- reply {task, how many of its jobs are held, ms since when nobody can run them, or -1: somebody can,
--        '' | 'go': release them | 'fail': some have waited too long, error with which they fail or '', …}
--
-- moves nothing: end_held.lua does that
-- touches conf

local SWEEPS = 150000             -- ms; if the last check is longer ago, no daemon served the queue meanwhile
-- ms; how long a task without held jobs stays listed; to list it again costs a claim and its settle
local FORGET = 600000
local LOOKS = 20                  -- checks per fail_after of the jobs that have not waited for so long yet
local serves, fail_after, runs = ARGV[1] == '1', tonumber(ARGV[2]), {}
for i = 3, #ARGV, 2 do runs[ARGV[i]] = ARGV[i + 1] == '1' and 'all' or 'some' end
local conf = redis.call('HMGET', CONF, 'held_tasks', 'held_looked')
-- at maxmemory Redis runs a script whose first write frees memory
redis.call('ZREM', QUEUE, '')
local since_look = math.max(0, now - (tonumber(conf[2]) or now))
local pause = (not serves or since_look > SWEEPS) and since_look or 0

-- look(task, is_suspended): {jobs, ms, what, error}; nil: the task need not be listed any more
local function look(task, is_suspended)
  local jobs = redis.call('ZCARD', HELD_BY .. '?' .. task)
  local since, paused, next, err = read_held(task)
  local stays = is_suspended or runs[task] ~= 'all' and now - since < FORGET
  if jobs == 0 then return stays and { 0, -1, '', err } or nil end
  if runs[task] or is_suspended then
    since, paused, next = now, 0, 0
  else
    paused = paused + math.min(pause, math.max(0, now - since))
  end
  local fails = not (runs[task] or is_suspended) and serves and since + paused + fail_after <= now and next <= now
  if fails then next = now + fail_after / LOOKS end
  write_held(task, since, paused, next, err)
  if is_suspended then return { jobs, -1, '', err } end
  return { jobs, runs[task] and -1 or now - since, runs[task] == 'all' and 'go' or fails and 'fail' or '', err }
end

local reply, kept, is_less, suspended = {}, '', false, suspended_tasks()
for name in (conf[1] and conf[1]:match(' (.*)$') or ''):gmatch('%S+') do
  local task = unescape(name)
  local found = look(task, suspended[name])
  if found then
    kept = kept .. name .. ' '
    reply[#reply + 1] = task
    for _, value in ipairs(found) do reply[#reply + 1] = value end
  else
    is_less = true
    redis.call('HDEL', CONF, 'held:' .. task)
  end
end
if kept == '' then
  redis.call('HDEL', CONF, 'held_tasks', 'held_looked')
else
  redis.call('HSET', CONF, 'held_looked', whole(now))
  if is_less then write_names(conf[1], kept) end
end
return reply
