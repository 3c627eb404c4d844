-- include: now queue score wake requeue
--
-- requeue_all(queue, status, limit): the same for the next `limit` jobs of a registry; call until none are left.
--
-- KEYS  1 ns:{q}
-- ARGV  1 failed | canceled · 2 limit
-- reply {moved, left}
--
-- moves failed | canceled -> queue
-- touches queue seq failed canceled job wake

local registry = ROOT .. ':' .. ARGV[1]
redis.call('ZREM', registry, '')
local moved = 0
for _, id in ipairs(redis.call('ZRANGE', registry, 0, ARGV[2] - 1)) do
  if requeue(id) == 1 then
    moved = moved + 1
  else
    -- no job any more: what cannot be requeued must not be met again and again
    redis.call('ZREM', registry, id)
  end
end
if moved > 0 then wake() end
return { moved, redis.call('ZCARD', registry) }
