-- include: now
--
-- daemons(): what all daemons and worker groups say about themselves, and the time by which it is judged.
--
-- KEYS  1 ns:daemons
-- reply {now, {name, "<epoch ms until which it is alive> <words>", …}}
--
-- moves nothing
-- touches daemons

return { now, redis.call('HGETALL', KEYS[1]) }
