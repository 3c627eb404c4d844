-- include: now queue score text job events
--
-- drop_broken(queue, who, entry): deletes a broken body
--
-- KEYS  1 ns:{q}
-- ARGV  1 who asks, or empty · 2 the entry, as in `broken`
-- reply 1 deleted · 0 it was no longer there
--
-- moves broken -> gone
-- touches broken conf events

if redis.call('LREM', ROOT .. ':broken', 1, ARGV[2]) == 0 then return 0 end
read_events(redis.call('HGET', CONF, 'events'), as_operator(ARGV[1]))
if events then
  events.record('broken.dropped', '-', '-', ' m' .. escape((ARGV[2]:match('^%d* ?([^\n]*)') or ''):sub(1, 255)))
  events.write()
end
return 1
