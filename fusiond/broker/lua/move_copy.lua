-- include: now queue many score wake line_up ends moved
--
-- move_copy(queue, not_after, source, jobs): stores jobs that are leaving another queue; nobody claims them before `move_end`.
--
-- KEYS  1 ns:{q}
-- ARGV  1 epoch ms by this Redis' clock · 2 name of the other queue · per job: id, nonce, kind, place, n, n fields and their values
-- reply per job: 1 it is here · 2 the same job is here already, in its own right · 3 the id is another job's · 0 too late: read anew
--
-- moves      -> deferred
-- A caller that was frozen would bring back a job that has left, arrived, run and been forgotten since it was read: an id is
-- remembered for 60 s, and what was read longer ago than the caller may take is refused.
-- touches deferred arriving job

local not_after, source = tonumber(ARGV[1]), ARGV[2]

-- is_same(id, fields): whether the job that is here was made of the same body
local function is_same(id, fields)
  local there = redis.pcall('HMGET', JOB .. id, 'task', 'args')
  local task, args
  for i = 1, #fields, 2 do
    if fields[i] == 'task' then task = fields[i + 1] elseif fields[i] == 'args' then args = fields[i + 1] end
  end
  return there[1] == task and there[2] == args
end

local function copy(id, nonce, kind, place, fields)
  if move_of(ARRIVING, id, nonce) then
    -- again, as a cancel may have been asked since
    if redis.call('ZSCORE', DEFERRED, id) then many('HSET', JOB .. id, fields) end
    return 1
  end
  if redis.call('EXISTS', JOB .. id) == 1 then return is_same(id, fields) and 2 or 3 end
  many('HSET', JOB .. id, fields)
  redis.call('ZADD', DEFERRED, now, id)
  redis.call('HSET', ARRIVING, id, nonce .. ' ' .. kind .. ' ' .. place .. ' ' .. source)
  return 1
end

local replies, at = {}, 3
while ARGV[at] do
  local fields, last = {}, at + 4 + 2 * ARGV[at + 4]
  for i = at + 5, last do fields[#fields + 1] = ARGV[i] end
  replies[#replies + 1] = now > not_after and 0 or copy(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], fields)
  at = last + 1
end
return replies
