-- include: now
--
-- publish(digest, ttl_ms, body): what a configuration declares for producers; the daemons' records refer to its digest
--
-- KEYS  1 ns:catalog
-- ARGV  1 digest of the body · 2 ttl, ms · 3 raw JSON {tasks, priorities, queues}
-- reply OK
--
-- Each field is digest -> "<epoch ms from which it may be deleted>\n<body>". Only this script deletes the old ones:
-- while no daemon runs at all, producers may still enqueue.
-- touches catalog

local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if (tonumber(all[i + 1]:match('^%d+')) or 0) < now then redis.call('HDEL', KEYS[1], all[i]) end
end
redis.call('HSET', KEYS[1], ARGV[1], now + ARGV[2] .. '\n' .. ARGV[3])
return redis.status_reply('OK')
