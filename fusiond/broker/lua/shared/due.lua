-- promote(limit): scheduled jobs that are due -> queue, at a new place in the row of their priority; whether there may be more.
-- (needs now, queue, score, many, line_up, broken)
local function promote(limit)
  local first = tonumber(redis.call('ZRANGE', SCHEDULED, 0, 0, 'WITHSCORES')[2])
  if not first or first > now then return false end
  local due = redis.call('ZRANGEBYSCORE', SCHEDULED, '-inf', now, 'LIMIT', 0, limit)
  local seq = redis.call('INCRBY', SEQ, #due) - #due
  for i, id in ipairs(due) do
    local h = redis.pcall('HMGET', JOB .. id, 'score', 'task')
    if h.err or not finite(h[1]) or not h[2] then
      break_job(id)
    else
      redis.call('HSET', JOB .. id, 'queued_at', now)
      add(ready, later(finite(h[1]), seq + i), id)
    end
  end
  many('ZREM', SCHEDULED, due)
  return #due == limit
end
