-- include: now
--
-- daemons(): what all daemons and worker groups say about themselves, and the time by which to judge it
--
-- KEYS  1 ns:daemons
-- reply {now, {name, "<epoch ms until which it is alive> <words>", …}}
--
-- moves nothing
-- touches daemons

return { now, redis.call('HGETALL', KEYS[1]) }
