-- include: now queue flows
--
-- flow_due(queue, limit, ms): the runs of flows that the caller is to advance
--
-- KEYS  1 ns:{q}
-- ARGV  1 how many at most · 2 ms after which another caller gets them if nobody has advanced them
-- reply ids
--
-- touches advance flows

local due = redis.call('ZRANGEBYSCORE', ADVANCE, '-inf', now, 'LIMIT', 0, ARGV[1])
for _, id in ipairs(due) do
  -- a run that is gone, or of another type, cannot be advanced
  if redis.call('TYPE', FLOW .. id).ok == 'hash' then
    redis.call('ZADD', ADVANCE, now + ARGV[2], id)
  else
    redis.call('ZREM', ADVANCE, id)
  end
end
return due
