-- include: now
--
-- alive(name, ms, ttl_ms, words): what a daemon or a worker group says about itself, which holds for `ms` from now.
--
-- KEYS  1 ns:daemons
-- ARGV  1 name, <daemon> or <daemon>/<worker> · 2 ms; 0: it ends now · 3 ms that a dead daemon is kept · 4 words
-- reply what it said before, or nil
--
-- Each field is name -> "<epoch ms until which it is alive> <words>". A group's record is deleted once the group is
-- dead. A daemon's record is deleted `ttl_ms` after its death, or after an hour if another daemon with the same words
-- lived longer: a container that is started again has another id each time, and what it declared is known without its
-- old records.
-- touches daemons

-- at maxmemory Redis runs a script whose first write frees memory
redis.call('HDEL', KEYS[1], '')
local HOUR = 3600000
local before = redis.call('HGET', KEYS[1], ARGV[1])
local all = redis.call('HGETALL', KEYS[1])
-- until_of(record): when it ends, and its words
local function until_of(record) return tonumber(record:match('^%d+')) or 0, record:match(' .*') or '' end
local last = {}                   -- words of daemons -> when the last daemon with these words ends
for i = 1, #all, 2 do
  local ends, words = until_of(all[i + 1])
  if not all[i]:find('/', 1, true) then last[words] = math.max(last[words] or 0, ends) end
end
for i = 1, #all, 2 do
  local ends, words = until_of(all[i + 1])
  local remembered = tonumber(ARGV[3])
  local is_group = all[i]:find('/', 1, true)
  if is_group then remembered = 0 elseif ends < last[words] then remembered = math.min(remembered, HOUR) end
  if ends + remembered <= now then redis.call('HDEL', KEYS[1], all[i]) end
end
if ARGV[2] == '0' and ARGV[1]:find('/', 1, true) then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], now + ARGV[2] .. ' ' .. ARGV[4])
end
return before
