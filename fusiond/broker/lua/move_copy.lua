-- include: now queue many score text claims job events wake line_up places locks follow ends moved
--
-- move_copy(queue, not_after, source, jobs): stores jobs that are leaving another queue; nobody claims them before `move_end`.
--
-- KEYS  1 ns:{q}
-- ARGV  1 epoch ms by this Redis' clock · 2 name of the other queue · per job: id, nonce, kind, place, n, n fields and their values
-- reply per job: 1 it is here · 2 the same job is here already, in its own right · 3 the id is another job's, or the lock · 0 too late: read anew
--
-- moves      -> deferred
-- A caller that was frozen would bring back a job that has left, arrived, run and been forgotten since it was read: an id is
-- remembered for 60 s, and what was read longer ago than the caller may take is refused.
-- touches deferred arriving job claims unique

local not_after, source = tonumber(ARGV[1]), ARGV[2]

-- is_same(id, fields): whether the job that is here was made of the same body
local function is_same(id, fields)
  local there = load(id)
  return there and there.task == fields.task and there.args == fields.args
end

local function store_copy(id, fields)
  local texts = {}
  list_new(texts, id, fields)
  write(texts)
end

-- lock_copy(id, fields): takes the lock that the job would hold here; false: another job has it
local function lock_copy(id, h)
  local key, rule = lock_of(h.task, h.unique or '')
  -- what has begun has freed its lock, and takes it no more
  if not key or rule == 'started' and h.started_at then return true end
  if rival(key, id) then return false end
  local left = tonumber(rule) and (finite(h.created_at) or now) + rule - now
  if not left then
    take_lock(key, rule, id)
  elseif left > 0 then
    take_lock(key, whole(left), id)
  end
  return true
end

local function copy(id, nonce, kind, place, fields)
  if move_of(ARRIVING, id, nonce) then
    -- again, as a cancel may have been asked since
    if redis.call('ZSCORE', DEFERRED, id) then store_copy(id, fields) end
    return 1
  end
  if redis.call('EXISTS', JOB .. id) == 1 then return is_same(id, fields) and 2 or 3 end
  if not lock_copy(id, fields) then return 3 end
  store_copy(id, fields)
  redis.call('ZADD', DEFERRED, now, id)
  redis.call('HSET', ARRIVING, id, nonce .. ' ' .. kind .. ' ' .. place .. ' ' .. source)
  return 1
end

local replies, at = {}, 3
while ARGV[at] do
  local fields, last = {}, at + 4 + 2 * ARGV[at + 4]
  for i = at + 5, last, 2 do fields[ARGV[i]] = ARGV[i + 1] end
  replies[#replies + 1] = now > not_after and 0 or copy(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], fields)
  at = last + 1
end
return replies
