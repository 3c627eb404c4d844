-- What a script makes ready, and what it has wait for its time: {score or due time, id, …}; `line_up` lists all of it at the end.
-- (needs queue, many)
local ready, later_on = {}, {}
local function add(list, place, id)
  list[#list + 1], list[#list + 2] = place, id
end
-- line_up(): whether those who wait must know: something is ready, or comes due before all that was scheduled.
local function line_up()
  many('ZADD', QUEUE, ready)
  if #later_on == 0 then return #ready > 0 end
  local first, earliest = tonumber(redis.call('ZRANGE', SCHEDULED, 0, 0, 'WITHSCORES')[2]), later_on[1]
  for i = 3, #later_on, 2 do earliest = math.min(earliest, later_on[i]) end
  many('ZADD', SCHEDULED, later_on)
  return #ready > 0 or not first or earliest < first
end
