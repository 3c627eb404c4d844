-- include: now queue batches score text job
--
-- renew(queue, lease_ms, attempts): extends the leases of running jobs, and notes permits
--
-- KEYS  1 ns:{q}
-- ARGV  1 lease, ms · then per attempt: id, token, note
--         note  empty
--               permit: only this attempt may begin; if its lease is lost, the job fails
-- reply per attempt: 1 held until now + lease · 0 lost, kill it · 2 held, and a cancel was asked
--
-- moves nothing
-- touches started job

-- at maxmemory Redis refuses ZADD as a script's first write, and every lease would expire at once
redis.call('ZREM', STARTED, '')
local deadline, held, replies = whole(now + ARGV[1]), {}, {}
local function permit(id)
  local h = load_job(id)
  if not h then return end        -- its large arguments are gone
  h.permit = h.token
  save_job(id, h)
end
for i = 2, #ARGV, 3 do
  local state = state_if_held(ARGV[i], ARGV[i + 1])
  if state then
    if ARGV[i + 2] == 'permit' then permit(ARGV[i]) end
    held[#held + 1], held[#held + 2] = deadline, ARGV[i]
    replies[#replies + 1] = state:find(' a', 1, true) and 2 or 1
  else
    replies[#replies + 1] = 0
  end
end
call_in_batches('ZADD', STARTED, held, 'XX')
return replies
