-- include: now
--
-- cron_state(entry): what is known of a cron entry.
--
-- KEYS  1 ns:cron
-- ARGV  the requested fields
-- reply {now, value | nil, …}
--
-- moves nothing
-- touches cron

return { now, unpack(redis.call('HMGET', KEYS[1], unpack(ARGV))) }
