-- include: now
--
-- hold_program(name, token, ms, says, refused, cursors): a daemon works for a sink or an outbox, and reports its
-- progress; one daemon at a time
--
-- KEYS  1 ns:sinks or ns:outboxes
-- ARGV  1 name · 2 token of the daemon's program · 3 ms until it must call this again; 0: it ends
--       4 what it says of itself, for a sink why it cannot deliver now; or empty
--       5 events that were refused for good since the last call
--       then stream and number of each cursor
-- reply {stream, number, …}: the sink's cursors now, or nil: another daemon works for it
--
-- moves nothing
-- touches sinks outboxes

local name, token, ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local holder, expires = (redis.call('HGET', KEYS[1], name) or ''):match('^(%S+) (%d+)$')
if holder and holder ~= token and tonumber(expires) > now then return false end
-- at maxmemory Redis runs a script whose first write frees memory
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], name, token .. ' ' .. string.format('%.0f', now + ms))
local says = name .. ' says'
if ARGV[4] == '' then redis.call('HDEL', KEYS[1], says) else redis.call('HSET', KEYS[1], says, ARGV[4]) end
-- this must not undo what another daemon has noted meanwhile
if ARGV[5] ~= '0' then redis.call('HINCRBY', KEYS[1], name .. ' refused', ARGV[5]) end
local first = holder == token and 6 or #ARGV + 1
for i = first, #ARGV, 2 do redis.call('HSET', KEYS[1], name .. '/' .. ARGV[i], ARGV[i + 1]) end
local found, all = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local stream = all[i]:sub(1, #name + 1) == name .. '/' and all[i]:sub(#name + 2)
  if stream then found[#found + 1], found[#found + 2] = stream, all[i + 1] end
end
return found
