-- include: now queue
--
-- effects(queue, target, number): what this queue has for other queues, one target at a time
--
-- KEYS  1 ns:{q}
-- ARGV  1 the target that got entries, or empty · 2 the highest number that it has carried out
-- reply {target, entry, …}: the oldest entries for one target; {}: there are none. A reply ends soon after 1 MB
--
-- moves effects -> gone    entries of that target up to that number
-- touches effects

local EFFECTS = ROOT .. ':effects'
local MOST, STEP = 200, 20        -- entries in one reply, and those that are read together: each may have 200 kB
local LARGE_REPLY = 1048576       -- bytes
-- at maxmemory Redis runs a script whose first write frees memory
if ARGV[1] ~= '' then
  local key, taken, gone = EFFECTS .. ':' .. ARGV[1], tonumber(ARGV[2]), 0
  repeat
    gone = 0
    for _, entry in ipairs(redis.call('LRANGE', key, 0, STEP - 1)) do
      if tonumber(entry:match('^%d+') or 0) <= taken then gone = gone + 1 end
    end
    if gone > 0 then redis.call('LTRIM', key, gone, -1) end
  until gone < STEP
end
for _, target in ipairs(redis.call('HKEYS', EFFECTS)) do
  local reply, bytes = { target }, 0
  for first = 0, MOST - 1, STEP do
    for _, entry in ipairs(redis.call('LRANGE', EFFECTS .. ':' .. target, first, first + STEP - 1)) do
      reply[#reply + 1], bytes = entry, bytes + #entry
    end
    if bytes > LARGE_REPLY or #reply <= first + STEP then break end
  end
  if #reply > 1 then return reply end
end
return {}
