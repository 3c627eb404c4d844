-- include: now queue score text job events wake
--
-- requeue_broken(queue, who, entries): pushes broken bodies to the inbox again
--
-- KEYS  1 ns:{q}
-- ARGV  1 who asks, or empty · then entries, as in `broken`
-- reply how many of them were still there
--
-- moves broken -> inbox
-- touches broken inbox conf events wake

local moved = 0
read_events(redis.call('HGET', CONF, 'events'), as_operator(ARGV[1]))
for i = 2, #ARGV do
  local entry = ARGV[i]
  local reason, raw = entry:match('^%d* ?([^\n]*)\n(.*)$')
  if raw and redis.call('LREM', ROOT .. ':broken', 1, entry) == 1 then
    redis.call('LPUSH', ROOT .. ':inbox', raw)
    moved = moved + 1
    if events then events.record('broken.requeued', '-', '-', ' m' .. escape(reason:sub(1, 255))) end
  end
end
if moved > 0 then wake() end
if events then events.write() end
return moved
