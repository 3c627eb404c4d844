-- schedule(later_on): adds {due, id, due, id, …} to the scheduled jobs; says whether one of them is the new earliest.
-- (needs many)
local function schedule(later_on)
  if #later_on == 0 then return false end
  local first = redis.call('ZRANGE', SCHEDULED, 0, 0, 'WITHSCORES')
  local earliest = later_on[1]
  for i = 3, #later_on, 2 do
    if later_on[i] < earliest then earliest = later_on[i] end
  end
  many('ZADD', SCHEDULED, later_on)
  return #first == 0 or earliest < tonumber(first[2])
end
