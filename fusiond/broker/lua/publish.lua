-- include: now
--
-- publish(daemon, ttl_ms, generation, hash, body): what a daemon declares, for producers.
--
-- KEYS  1 ns:catalog
-- ARGV  1 daemon · 2 ttl, ms · 3 generation · 4 hash · 5 raw JSON {tasks, priorities, queues}
-- reply OK
--
-- Each field is "<epoch ms from which it is stale> <generation> <hash>\n<body>". Stale ones go here and nowhere else: while no daemon is
-- up at all, producers may still enqueue.
-- touches catalog

local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if (tonumber(all[i + 1]:match('^%d+')) or 0) < now then redis.call('HDEL', KEYS[1], all[i]) end
end
redis.call('HSET', KEYS[1], ARGV[1], (now + ARGV[2]) .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. '\n' .. ARGV[5])
return redis.status_reply('OK')
