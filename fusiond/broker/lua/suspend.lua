-- include: now queue score text job events
--
-- suspend(queue, by, on, who): no claim takes a job while the operator or the file says so; enqueue, due times and
-- rescues continue. A word about all queues changes nothing of one that the operator has suspended by its name
--
-- KEYS  1 ns:{q}
-- ARGV  1 operator | all | file; `all`: the operator, of all queues · 2 1: suspend, 0: resume · 3 who asks, or empty
-- reply 1 if the queue is suspended now, by either
--
-- moves nothing
-- touches conf queue events wake

-- at maxmemory Redis runs a script whose first write frees memory
redis.call('ZREM', QUEUE, '')
local field, name = 'suspended_operator', ARGV[3] or ''
if ARGV[1] == 'file' then field, name = 'suspended_file', 'the file' end
local conf = redis.call('HMGET', CONF, field, 'events')
if ARGV[1] == 'all' and conf[1] and conf[1] ~= 'all' then return 1 end
-- a daemon repeats what its file says
if (conf[1] and '1' or '0') ~= ARGV[2] then read_events(conf[2], as_operator(name)) end
if events then
  events.record(ARGV[2] == '1' and 'suspended' or 'resumed', '-', '-')
  events.write()
end
if ARGV[2] == '1' then
  redis.call('HSET', CONF, field, ARGV[1])
  -- so no enqueue claims its job
  redis.call('DEL', WAKE)
  return 1
end
redis.call('HDEL', CONF, field)
conf = redis.call('HMGET', CONF, 'suspended_operator', 'suspended_file')
if conf[1] or conf[2] then return 1 end
-- dispatchers of a suspended queue are not noted as waiting, so all that listen are told
redis.pcall('PUBLISH', WAKE, 'ready')
return 0
