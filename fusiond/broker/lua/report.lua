-- include: now queue score text job
--
-- report(queue, reports): stores the progress that running jobs report
--
-- KEYS  1 ns:{q}
-- ARGV  per attempt: id, token, share from 0 to 1, message
-- reply per attempt: 1 stored, or unchanged · 0 its lease was lost
--
-- moves nothing
-- touches started job

-- at maxmemory Redis runs a script whose first write frees memory
redis.call('ZREM', STARTED, '')
local replies = {}
for i = 1, #ARGV, 4 do
  local h = state_if_held(ARGV[i], ARGV[i + 1]) and load_job(ARGV[i])
  local share, message = ((h or {}).progress or ''):match('^(%S+) %d+ (.*)$')
  if h and (share ~= ARGV[i + 2] or message ~= ARGV[i + 3]) then
    h.progress = ARGV[i + 2] .. ' ' .. whole(now) .. ' ' .. ARGV[i + 3]
    save_job(ARGV[i], h)
  end
  replies[#replies + 1] = h and 1 or 0
end
return replies
