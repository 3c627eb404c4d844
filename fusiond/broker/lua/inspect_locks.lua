-- include: now queue score text job locks
--
-- inspect_locks(queue, repair, names): locks without a job that holds them; with `repair` they are freed
--
-- KEYS  1 ns:{q}
-- ARGV  1 repair 0|1 · then names: the part of a lock's key after ns:{q}:unique:
-- reply {name, id, …}: the job with this id is gone, has ended, or has begun and should hold the lock only until then
--
-- A lock that expires is not changed.
-- moves nothing
-- touches unique job

local function holds_lock(id, key)
  local h = load_job(id)
  if not h or h.ended_at then return false end
  local own, rule = lock_of(h.task, h.unique or '')
  return own == key and not (rule == 'started' and h.started_at)
end

local replies = {}
for i = 2, #ARGV do
  local key = ROOT .. ':unique:' .. ARGV[i]
  local id = holder(key)
  if id and redis.call('PTTL', key) < 0 and not holds_lock(id, key) then
    replies[#replies + 1], replies[#replies + 2] = ARGV[i], id
    if ARGV[1] == '1' then redis.call('DEL', key) end
  end
end
return replies
