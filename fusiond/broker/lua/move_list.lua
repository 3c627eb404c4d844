-- include: now queue many score wake line_up ends moved
--
-- move_list(queue, limit): jobs that are leaving, the ready ones first, in their order.
--
-- KEYS  1 ns:{q}
-- ARGV  1 limit
-- reply {id, nonce, kind, place, the other queue, {field, value, …}, …}; a reply ends with the job that takes it over 1 MB
--
-- moves nothing. What a hand has taken out of the deferred jobs leaves no more.
-- touches leaving deferred job

local LARGE_REPLY = 1048576       -- bytes of bodies
local all, jobs = redis.call('HGETALL', LEAVING), {}
for i = 1, #all, 2 do
  local id = all[i]
  local nonce, kind, place, other = all[i + 1]:match('^(%S+) (%S+) (%S+) (%S+)$')
  if nonce and redis.call('ZSCORE', DEFERRED, id) and redis.call('EXISTS', JOB .. id) == 1 then
    jobs[#jobs + 1] = { id, nonce, kind, place, other }
  else
    redis.call('HDEL', LEAVING, id)
  end
end
table.sort(jobs, function(one, two)
  if one[3] ~= two[3] then return one[3] == 'queued' end
  return (finite(one[4]) or 0) < (finite(two[4]) or 0)
end)
local replies, bytes = {}, 0
for i = 1, math.min(#jobs, tonumber(ARGV[1])) do
  if bytes > LARGE_REPLY then break end
  local fields = redis.call('HGETALL', JOB .. jobs[i][1])
  for _, field in ipairs(fields) do bytes = bytes + #field end
  for _, word in ipairs(jobs[i]) do replies[#replies + 1] = word end
  replies[#replies + 1] = fields
end
return replies
