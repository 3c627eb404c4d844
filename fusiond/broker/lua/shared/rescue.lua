-- What a claim tells of jobs that it does not give: those that it took back from a worker whose lease had expired, and those that it ended.
-- (needs now, queue, score, many, line_up, broken, ends)
local told = {}
-- tell(id, code, why, …): the reply's part about one of them; it was ready from `since`, and waited until `upto`
local function tell(id, code, why, task, attempts, rescues, token, since, upto, header)
  local tag = ''
  if header and #header <= 65536 and header:find('"log_tag"', 1, true) then
    local good, read = pcall(cjson.decode, header)
    tag = good and type(read) == 'table' and type(read.log_tag) == 'string' and read.log_tag or ''
  end
  upto = finite(upto) or now
  for _, each in ipairs({
    id, task:sub(1, 255), code, why, count(attempts), rescues, token or '', math.max(0, upto - (finite(since) or upto)), tag,
  }) do told[#told + 1] = each end
end
-- end_job(id, status, code, message, ttl, score, …): the rest as of `tell`
local function end_job(id, status, code, message, ttl, score, ...)
  local key = JOB .. id
  redis.call('HSET', key, 'ended_at', now, 'token', '', 'last_outcome', code:lower(), 'error', failure(code, message), 'score', score)
  redis.call('ZADD', ROOT .. ':' .. status, keep_until(ttl), id)
  tell(id, code, message, ...)
end
local function rescue(id, max_rescues)
  local h = redis.pcall('HMGET', JOB .. id, 'score', 'task', 'rescues', 'cancel', 'token', 'permit', 'attempts', 'queued_at', 'created_at',
    'started_at', 'header')
  local score = finite(not h.err and h[1])
  if not score or not h[2] then return break_job(id) end
  local rescues = count(h[3]) + 1
  local about = { h[2], h[7], rescues, h[5], h[8] or h[9], h[10], h[11] }
  local lost = h[6] and h[6] == h[5] and 'its lease expired after it was permitted to begin, and its retry policy lets it begin once only'
    or rescues > max_rescues and 'the lease of ' .. rescues .. ' attempts expired'
  if h[4] then
    end_job(id, 'canceled', 'CANCELED', 'it was canceled while it ran', h[4], score, unpack(about, 1, 7))
  elseif lost then
    redis.call('HSET', JOB .. id, 'rescues', rescues)
    end_job(id, 'failed', 'LEASE_LOST', lost, FAILED_KEPT, score, unpack(about, 1, 7))
  else
    redis.call('HSET', JOB .. id, 'token', '', 'rescues', rescues, 'last_outcome', 'rescued', 'queued_at', now)
    add(ready, score, id)
    tell(id, 'RESCUED', '', unpack(about, 1, 7))
  end
end
-- rescue_expired(limit, max_rescues): expired leases -> queue, at the old place, or their end; whether there may be more
local function rescue_expired(limit, max_rescues)
  local first = tonumber(redis.call('ZRANGE', STARTED, 0, 0, 'WITHSCORES')[2])
  if not first or first > now then return false end
  local expired = redis.call('ZRANGEBYSCORE', STARTED, '-inf', now, 'LIMIT', 0, limit)
  for _, id in ipairs(expired) do rescue(id, max_rescues) end
  many('ZREM', STARTED, expired)
  return #expired == limit
end
