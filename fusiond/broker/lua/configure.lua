-- include: queue
--
-- configure(queue, max_length, tasks): what enqueue and claim must know of the file.
--
-- KEYS  1 ns:{q}
-- ARGV  1 max_length, or empty: no limit · then per task that lives in the queue: name, "priority expires_ms" (expires may be empty)
-- reply OK
--
-- moves nothing
-- touches conf

if ARGV[1] == '' then
  redis.call('HDEL', CONF, 'max_length')
else
  redis.call('HSET', CONF, 'max_length', ARGV[1])
end
-- tasks that are gone stay: another daemon's file may still have them
for i = 2, #ARGV, 2 do redis.call('HSET', CONF, 'task:' .. ARGV[i], ARGV[i + 1]) end
return redis.status_reply('OK')
