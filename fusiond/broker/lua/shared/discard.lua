-- discard(id): FAILED, CANCELED -> gone; 1 dropped · 0 it is neither. (needs now, queue, ends)
-- A job that ended a moment ago stays until its id may be forgotten: a repeated enqueue must find it.
local function discard(id)
  local registry
  for _, status in ipairs({ ':failed', ':canceled' }) do
    if redis.call('ZSCORE', ROOT .. status, id) then registry = ROOT .. status end
  end
  if not registry then return 0 end
  local ended = redis.pcall('HGET', JOB .. id, 'ended_at')
  local known_until = (type(ended) == 'string' and tonumber(ended) or 0) + REMEMBERED
  if known_until > now then
    redis.call('ZADD', registry, known_until, id)
  else
    redis.call('ZREM', registry, id)
    redis.call('UNLINK', JOB .. id)
  end
  return 1
end
