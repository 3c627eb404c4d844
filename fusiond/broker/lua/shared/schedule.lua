-- schedule(later): adds {due, id, due, id, …} to the scheduled jobs; says whether one of them is the new earliest.
-- (needs many)
local function schedule(later)
  if #later == 0 then return false end
  local first = redis.call('ZRANGE', SCHEDULED, 0, 0, 'WITHSCORES')
  local earliest = later[1]
  for i = 3, #later, 2 do
    if later[i] < earliest then earliest = later[i] end
  end
  many('ZADD', SCHEDULED, later)
  return #first == 0 or earliest < tonumber(first[2])
end
