-- include: now queue score text job events
--
-- unlock(queue, who, id, names): frees locks of the job at an operator's request; the job itself is not changed
--
-- KEYS  1 ns:{q}
-- ARGV  1 who asks, or empty · 2 id · then names: the part of a lock's key after ns:{q}:unique:
-- reply how many were freed
--
-- moves nothing
-- touches unique conf events

local freed, id = 0, ARGV[2]
read_events(redis.call('HGET', CONF, 'events'), as_operator(ARGV[1]))
for i = 3, #ARGV do
  local key = ROOT .. ':unique:' .. ARGV[i]
  if redis.call('GET', key) == id then
    freed = freed + redis.call('DEL', key)
    if events then events.record('unlocked', id, '-', ' o' .. escape(ARGV[i])) end
  end
end
if events then events.write() end
return freed
