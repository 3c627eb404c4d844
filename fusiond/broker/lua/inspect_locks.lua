-- include: now queue score text job locks
--
-- inspect_locks(queue, repair, names): locks that no job holds any more; with `repair` they are freed.
--
-- KEYS  1 ns:{q}
-- ARGV  1 repair 0|1 · then names: what a lock's key has behind ns:{q}:unique:
-- reply {name, id, …}: the job with this id is gone, has ended, or has begun and was to hold the lock only until then
--
-- A lock that expires is left alone.
-- moves nothing
-- touches unique job

-- holds_lock(id, key): whether the job still holds that lock
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
