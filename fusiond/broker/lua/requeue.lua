-- include: now queue score wake
--
-- requeue(queue, ids): failed and canceled jobs run again, as if new: with all their attempts before them, behind their priority.
--
-- KEYS  1 ns:{q}
-- ARGV  ids
-- reply per id: 1 moved · 2 it is queued already · 0 it is neither failed nor canceled
--
-- moves failed | canceled -> queue
--       failed | canceled -> gone    it has no hash any more
-- touches queue seq failed canceled job wake

local function requeue(id)
  if redis.call('ZREM', ROOT .. ':failed', id) + redis.call('ZREM', ROOT .. ':canceled', id) == 0 then
    return redis.call('ZSCORE', QUEUE, id) and 2 or 0
  end
  local h = redis.pcall('HMGET', JOB .. id, 'score', 'task')
  if h.err or not h[2] then return 0 end
  redis.call('HDEL', JOB .. id, 'attempts', 'crashes', 'rescues', 'ended_at', 'started_at', 'expires_at', 'cancel', 'result', 'token',
    'unknown_since', 'interrupted', 'permit')
  redis.call('HSET', JOB .. id, 'last_outcome', 'requeued', 'queued_at', now)
  redis.call('ZADD', QUEUE, later(finite(h[1]) or 254 * BAND, redis.call('INCR', SEQ)), id)
  return 1
end

-- at maxmemory a script passes whose first write frees memory
redis.call('ZREM', QUEUE, '')
local replies, moved = {}, false
for i, id in ipairs(ARGV) do
  replies[i] = requeue(id)
  moved = moved or replies[i] == 1
end
if moved then wake() end
return replies
