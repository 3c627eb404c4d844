-- The jobs that a claim reports and does not hand out: jobs that it took back because their lease had expired, and jobs
-- that it ended. (needs now, queue, score, job, batches, ready, broken, endings)
local reclaimed = {}
-- report_reclaimed(id, code, why, …): the reply's part about one of them; it was ready at `since` and waited until
-- `upto`
local function report_reclaimed(id, code, why, task, attempts, rescues, token, since, upto, header)
  local tag = ''
  if header and #header <= 65536 and header:find('"log_tag"', 1, true) then
    local good, read = pcall(cjson.decode, header)
    tag = good and type(read) == 'table' and type(read.log_tag) == 'string' and read.log_tag or ''
  end
  upto = finite(upto) or now
  local waited = math.max(0, upto - (finite(since) or upto))
  for _, each in ipairs({
    id, task:sub(1, 255), code, why, count(attempts), rescues, token or '', waited, tag,
  }) do reclaimed[#reclaimed + 1] = each end
end
-- expiry_message(h): the message of a job that has expired
local function expiry_message(h)
  return (count(h.attempts) == 0 and 'it' or 'its next attempt') .. ' had not begun when it expired'
end
-- final_error(h, code, message): the error of a job that ends here. A job that expires after an exception keeps the
-- exception
local function final_error(h, code, message)
  if code ~= 'EXPIRED' or not h.error then return failure(code, message) end
  local error = h.error:gsub('"code": ?"[^"]*"', '"code": "EXPIRED"', 1)
  return (error:gsub('", ?"traceback"', '; ' .. message .. '%0', 1))
end
-- end_job(id, h, status, code, message, ttl, score, …): the other arguments are those of `report_reclaimed`
local function end_job(id, h, status, code, message, ttl, score, ...)
  local held_by = select(4, ...)
  h.ended_at, h.token, h.last_outcome, h.error, h.score = now, nil, code:lower(), final_error(h, code, message), score
  register_ended(id, status, ttl, h)
  if events then events.record_ended(status, id, h, held_by ~= '' and since_claim(h) or nil) end
  save_job(id, h)
  report_reclaimed(id, code, message, ...)
end
-- fail_unclaimed(id, h, code, message, score): ends a job that waited for its claim
local function fail_unclaimed(id, h, code, message, score)
  end_job(id, h, 'failed', code, message, failure_ttl(h), score, h.task, h.attempts or false, count(h.rescues), '',
    h.queued_at or h.created_at, now, h.header)
end
-- rescue(id, max_rescues): takes back a job whose lease has expired
local function rescue(id, max_rescues)
  local h = load_job(id)
  leave_started(id, h and h.limit)
  if not h then return break_job(id) end
  local score, rescues = finite(h.score) or 254 * BAND, count(h.rescues) + 1
  h.limit = nil
  local reported = { h.task, h.attempts or false, rescues, h.token or false, h.queued_at or h.created_at,
    h.started_at or false, h.header or false }
  local why_lost = h.permit and h.permit == h.token
    and 'its lease expired after it was permitted to begin, and its retry policy lets it begin once only'
    or rescues > max_rescues and 'the lease of ' .. rescues .. ' attempts expired'
  codec.add_to_history(h, h.cancel and 'canceled' or why_lost and 'lease_lost' or 'rescued',
    ',"worker":' .. cjson.encode((h.token or ''):sub(1, 4)))
  if h.cancel then
    end_job(id, h, 'canceled', 'CANCELED', 'it was canceled while it ran', h.cancel, score, unpack(reported, 1, 7))
  elseif why_lost then
    h.rescues = rescues
    end_job(id, h, 'failed', 'LEASE_LOST', why_lost, failure_ttl(h), score, unpack(reported, 1, 7))
  else
    report_reclaimed(id, 'RESCUED', '', unpack(reported, 1, 7))
    h.token, h.rescues, h.last_outcome, h.queued_at = nil, rescues, 'rescued', now
    if events then events.record_job('rescued', id, h, since_claim(h)) end
    save_job(id, h)
    return_to_ready(id, whole(score))
  end
end
-- rescue_expired(limit, max_rescues): takes back or ends the jobs whose leases have expired; returns whether there may
-- be more
local function rescue_expired(limit, max_rescues)
  local first = tonumber(redis.call('ZRANGE', STARTED, 0, 0, 'WITHSCORES')[2])
  if not first or first > now then return false end
  local found = redis.call('ZRANGEBYSCORE', STARTED, '-inf', now, 'LIMIT', 0, limit)
  for _, id in ipairs(found) do rescue(id, max_rescues) end
  write_endings()
  return #found == limit
end
