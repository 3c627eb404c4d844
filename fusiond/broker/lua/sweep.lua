-- include: now queue many ends
--
-- sweep(queue, limit): drops ended jobs whose time is over, for queues in which nothing is settled any more; and
-- shortens leases that were given before the clock was put back: whoever died with one would keep its job for so long.
--
-- KEYS  1 ns:{q}
-- ARGV  1 limit, of each registry
-- reply {how many ended jobs were dropped, how many leases have expired}
--
-- moves finished | failed | canceled -> gone
-- touches finished failed canceled started job

local LONGEST = 60000             -- ms; no lease is asked for that long
local gone = 0
for _, status in ipairs({ 'finished', 'failed', 'canceled' }) do gone = gone + trim(status, tonumber(ARGV[1])) end
local far = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', STARTED, now + LONGEST + 1, '+inf', 'LIMIT', 0, ARGV[1])) do
  far[#far + 1], far[#far + 2] = now + LONGEST, id
end
-- at maxmemory ZADD is refused as a script's first write
redis.call('ZREM', STARTED, '')
many('ZADD', STARTED, far)
return { gone, redis.call('ZCOUNT', STARTED, '-inf', now) }
