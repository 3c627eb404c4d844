-- What a claim tells of jobs that it does not give: those that it took back from a worker whose lease had expired, and those that it ended.
-- (needs now, queue, score, job, many, line_up, broken, ends)
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
-- why_expired(h): the sentence of a job that may not begin any more
local function why_expired(h)
  return count(h.attempts) == 0 and 'it had not begun when it expired' or 'its next attempt had not begun when it expired'
end
-- error_of(h, code, message): that of a job that ends here. One that expires behind an attempt that raised keeps that exception
local function error_of(h, code, message)
  if code ~= 'EXPIRED' or not h.error then return failure(code, message) end
  local error = h.error:gsub('"code": ?"[^"]*"', '"code": "EXPIRED"', 1)
  return (error:gsub('", ?"traceback"', '; ' .. message .. '%0', 1))
end
-- end_job(id, h, status, code, message, ttl, score, …): the rest as of `tell`
local function end_job(id, h, status, code, message, ttl, score, ...)
  local held_by = select(4, ...)
  h.ended_at, h.token, h.last_outcome, h.error, h.score = now, nil, code:lower(), error_of(h, code, message), score
  ended(id, status, ttl, h)
  if events then events.ended(status, id, h, held_by ~= '' and since_claim(h) or nil) end
  save(id, h)
  tell(id, code, message, ...)
end
-- rescue(id, max_rescues): its lease has expired
local function rescue(id, max_rescues)
  local h = load(id)
  leave_started(id, h and h.limit)
  if not h then return break_job(id) end
  local score, rescues = finite(h.score) or 254 * BAND, count(h.rescues) + 1
  h.limit = nil
  local about = { h.task, h.attempts or false, rescues, h.token or false, h.queued_at or h.created_at, h.started_at or false, h.header or false }
  local lost = h.permit and h.permit == h.token and 'its lease expired after it was permitted to begin, and its retry policy lets it begin once only'
    or rescues > max_rescues and 'the lease of ' .. rescues .. ' attempts expired'
  made.remember(h, h.cancel and 'canceled' or lost and 'lease_lost' or 'rescued', ',"worker":' .. cjson.encode((h.token or ''):sub(1, 4)))
  if h.cancel then
    end_job(id, h, 'canceled', 'CANCELED', 'it was canceled while it ran', h.cancel, score, unpack(about, 1, 7))
  elseif lost then
    h.rescues = rescues
    end_job(id, h, 'failed', 'LEASE_LOST', lost, failure_ttl(h), score, unpack(about, 1, 7))
  else
    tell(id, 'RESCUED', '', unpack(about, 1, 7))
    h.token, h.rescues, h.last_outcome, h.queued_at = nil, rescues, 'rescued', now
    if events then events.job('rescued', id, h, since_claim(h)) end
    save(id, h)
    return_to_row(id, whole(score))
  end
end
-- rescue_expired(limit, max_rescues): expired leases -> queue, at the old place, or their end; whether there may be more
local function rescue_expired(limit, max_rescues)
  local first = tonumber(redis.call('ZRANGE', STARTED, 0, 0, 'WITHSCORES')[2])
  if not first or first > now then return false end
  local found = redis.call('ZRANGEBYSCORE', STARTED, '-inf', now, 'LIMIT', 0, limit)
  for _, id in ipairs(found) do rescue(id, max_rescues) end
  write_endings()
  return #found == limit
end
