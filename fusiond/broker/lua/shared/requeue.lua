-- requeue(id): FAILED, CANCELED -> QUEUED, behind its priority, as if new; 1 moved · 2 it is queued already · 0 neither.
-- (needs now, queue, score)
local function requeue(id)
  local h = redis.pcall('HMGET', JOB .. id, 'score', 'task')
  if h.err or not finite(h[1]) or not h[2] then
    return (not h.err and h[2] and redis.call('ZSCORE', QUEUE, id)) and 2 or 0
  end
  if redis.call('ZREM', ROOT .. ':failed', id) + redis.call('ZREM', ROOT .. ':canceled', id) == 0 then
    return redis.call('ZSCORE', QUEUE, id) and 2 or 0
  end
  redis.call('HDEL', JOB .. id, 'attempts', 'crashes', 'rescues', 'ended_at', 'started_at', 'expires_at', 'cancel', 'result', 'token',
    'unknown_since', 'interrupted', 'permit')
  redis.call('HSET', JOB .. id, 'last_outcome', 'requeued', 'queued_at', now)
  redis.call('ZADD', QUEUE, later(finite(h[1]), redis.call('INCR', SEQ)), id)
  return 1
end
