-- rights(key, channel): what this connection's user lacks of the rights that fusiond needs. Tries each command, and
-- changes nothing.
--
-- KEYS  1 ns:rights
-- ARGV  1 a channel of the namespace
-- reply {right, …}: `+command`; `~`: keys of the namespace; `&`: its channels; or the error of a read-only server
--
-- During this the key holds a text, so that commands on other types have no effect: Redis checks rights before types.
-- moves nothing
-- touches rights

local key, denied, is_known = KEYS[1], {}, {}
local function try(name, ...)
  local reply = redis.pcall(name, ...)
  local why = type(reply) == 'table' and reply.err
  -- each of Redis 6.2, Redis 7.0 and Valkey has another message
  if not why or not (why:find('NOPERM', 1, true) or why:find('ACL failure', 1, true)) then return why and reply end
  local right = why:find('channel', 1, true) and '&' or why:find(' keys?%f[%W]') and '~' or '+' .. name:lower()
  if not is_known[right] then denied[#denied + 1] = right end
  is_known[right] = true
end

-- at maxmemory Redis runs a script whose first write frees memory; a replica, or a server that cannot save, refuses it
local refusal = try('DEL', key)
if refusal then return refusal end
for _, words in ipairs({
  'MSET x', 'PERSIST', 'SET x PX 1000', 'DUMP', 'EXISTS', 'EXPIRE 1', 'GET', 'GETRANGE 0 0', 'HDEL f', 'HEXISTS f',
  'HGET f', 'HGETALL', 'HINCRBY f 1', 'HKEYS', 'HLEN', 'HMGET f', 'HSET f x', 'HSETNX f x', 'HVALS', 'INCR',
  'INCRBY 1', 'LLEN', 'LPOS x', 'LPUSH x', 'LRANGE 0 0', 'LREM 0 x', 'LTRIM 0 0', 'MGET', 'PEXPIRE 1000', 'PTTL',
  'RPOP', 'RPUSH x', 'SADD x', 'SMEMBERS', 'SREM x', 'STRLEN', 'TYPE', 'XADD MAXLEN 1 * f x', 'XDEL 1-1',
  'XRANGE - + COUNT 1', 'XREVRANGE + - COUNT 1', 'XTRIM MAXLEN 1', 'ZADD 1 x', 'ZCARD', 'ZCOUNT 0 1',
  'ZMSCORE x', 'ZPOPMIN', 'ZRANGE 0 0',
  'ZRANGEBYSCORE 0 0', 'ZRANK x', 'ZREM x', 'ZREMRANGEBYSCORE 0 0', 'ZREVRANGE 0 0', 'ZREVRANGEBYSCORE 0 0', 'ZSCAN 0',
  'ZSCORE x', 'UNLINK',
}) do
  local name, rest = words:match('^(%u+) ?(.*)$')
  local arguments = {}
  for word in rest:gmatch('%S+') do arguments[#arguments + 1] = word end
  try(name, key, unpack(arguments))
end
try('SET', key, 'x', 'PX', '1000')
try('RENAME', key, key)
try('ZUNIONSTORE', key, '1', key)
try('TIME')
try('SCAN', '0', 'COUNT', '1')
try('PUBLISH', ARGV[1], 'question')
try('DEL', key)
return denied
