-- include: now queue
--
-- undelivered(stream, numbers): for how long a stream has had the first event after each of these numbers
--
-- KEYS  1 ns:{q}; of the daemons' own stream ns:{/daemons}
-- ARGV  numbers of events: the last one that a sink has delivered
-- reply ms for each; -1: no event follows
--
-- moves nothing
-- touches events

local found = {}
for i, number in ipairs(ARGV) do
  local entries = redis.pcall('XRANGE', ROOT .. ':events', whole(number + 1) .. '-0', '+', 'COUNT', 1)
  local said = entries[1] and entries[1][2]
  local at = said and said[1] == 'at' and tonumber(said[2])
  found[i] = at and math.max(0, now - at) or -1
end
return found
