-- include: now queue many score text claims job wake line_up places locks follow ends moved
--
-- move_list(queue, target, limit): jobs that are leaving for another queue, the ready ones first, in their order.
--
-- KEYS  1 ns:{q}
-- ARGV  1 name of the other queue · 2 limit
-- reply {id, nonce, kind, place, {field, value, …}, …}; a reply ends with the job that takes it over 1 MB
--
-- moves nothing; a job that is not deferred any more leaves no more
-- touches leaving deferred job claims

local LARGE_REPLY = 1048576       -- bytes of bodies
local all, jobs = redis.call('HGETALL', LEAVING), {}
for i = 1, #all, 2 do
  local id = all[i]
  local nonce, kind, place, other = all[i + 1]:match('^(%S+) (%S+) (%S+) (%S+)$')
  if not nonce or not redis.call('ZSCORE', DEFERRED, id) or not state_of(id) then
    redis.call('HDEL', LEAVING, id)
  elseif other == ARGV[1] then
    jobs[#jobs + 1] = { id, nonce, kind, place }
  end
end
table.sort(jobs, function(one, two)
  if one[3] ~= two[3] then return one[3] == 'queued' end
  return (finite(one[4]) or 0) < (finite(two[4]) or 0)
end)
local replies, bytes = {}, 0
for i = 1, math.min(#jobs, tonumber(ARGV[2])) do
  if bytes > LARGE_REPLY then break end
  local fields = flat(load(jobs[i][1]) or {})
  for _, field in ipairs(fields) do bytes = bytes + #field end
  for _, word in ipairs(jobs[i]) do replies[#replies + 1] = word end
  replies[#replies + 1] = fields
end
return replies
