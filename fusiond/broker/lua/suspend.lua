-- include: queue
--
-- suspend(queue, by, on): nothing is claimed while the operator or the file says so; enqueue, due times and rescue go on.
--
-- KEYS  1 ns:{q}
-- ARGV  1 operator | file · 2 1: suspend, 0: resume
-- reply 1 if the queue is suspended now, by either
--
-- moves nothing
-- touches conf wake

local field = 'suspended_' .. ARGV[1]
if ARGV[2] == '1' then
  redis.call('HSET', CONF, field, 1)
  return 1
end
redis.call('HDEL', CONF, field)
local conf = redis.call('HMGET', CONF, 'suspended_operator', 'suspended_file')
if conf[1] or conf[2] then return 1 end
-- dispatchers of a suspended queue are not noted as waiting: tell whoever listens
redis.call('PUBLISH', WAKE, 'ready')
return 0
