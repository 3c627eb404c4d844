-- include: now queue
--
-- undelivered(stream, numbers): for how long the first event behind each of these numbers has been in a stream.
--
-- KEYS  1 ns:{q}; of the daemons' own stream ns:{/daemons}
-- ARGV  numbers of events, as a sink notes how far it is
-- reply ms for each; -1: there is none behind it
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
