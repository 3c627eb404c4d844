-- include: queue
--
-- unpark(queue, tokens): a dispatcher is to be given no job with a wake-up any more; others may still wait.
--
-- KEYS  1 ns:{q}
-- ARGV  the tokens that its claims have left
-- reply 1 if one of them was there, else 0
--
-- moves nothing
-- touches queue wake

-- at maxmemory a script passes whose first write frees memory
redis.call('ZREM', QUEUE, '')
local waiting = redis.pcall('GET', WAKE)
local parked = type(waiting) == 'string' and waiting:match('^%S+')
for _, token in ipairs(ARGV) do
  if parked == token then
    redis.call('SET', WAKE, '1', 'KEEPTTL')
    return 1
  end
end
return 0
