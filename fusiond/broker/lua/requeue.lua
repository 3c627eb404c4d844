-- include: now queue score wake requeue
--
-- requeue(queue, ids): failed and canceled jobs run again, with all their attempts before them.
--
-- KEYS  1 ns:{q}
-- ARGV  ids
-- reply per id: 1 moved · 2 it is queued already · 0 it is neither failed nor canceled
--
-- moves failed | canceled -> queue
-- touches queue seq failed canceled job wake

redis.call('ZREM', QUEUE, '')
local replies, moved = {}, 0
for i, id in ipairs(ARGV) do
  replies[i] = requeue(id)
  if replies[i] == 1 then moved = moved + 1 end
end
if moved > 0 then wake() end
return replies
