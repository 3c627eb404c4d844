-- How jobs leave `started` and how they end. A script that ends a job or an attempt calls `write_endings` at its end. A
-- registry of ended jobs holds id -> the time from which the job may be deleted. (needs now, queue, batches, job,
-- ready, places, locks, follow, ticks; and tally, if a waiting job ends)
-- ms that an id is known after its end, so that a repeated enqueue does not run it again
local REMEMBERED = 60000
local FAILED_KEPT = 2592000000    -- ms, 30 days: `failure_ttl` of a task without a known one
local REGISTRY_KEPT = 1000000     -- jobs in one registry
local KEPT_UNTIL = {}             -- ttl -> score
local left_started, endings = {}, {}  -- ids · status -> {score, id, …}
local ended_waiting = {}          -- jobs that ended without an attempt: task, letter of tally.lua, …
local function keep_until(ttl) return now + math.max(tonumber(ttl) or 0, REMEMBERED) end
-- failure_ttl(h): for how many ms to keep a job that fails or is canceled here: from its header, or else from its task
local function failure_ttl(h)
  local header = h.header or ''
  local good, said = pcall(cjson.decode, header:find('"failure_ttl"', 1, true) and header or '{}')
  local seconds = good and type(said) == 'table' and finite(said.failure_ttl)
  return seconds and math.floor(seconds * 1000) or finite(redis.call('HGET', CONF, 'failure_ttl:' .. h.task))
    or FAILED_KEPT
end
-- leave_started(id, limit): an attempt is over; limit: the job's field, which the caller then clears
local function leave_started(id, limit)
  left_started[#left_started + 1] = id
  if limit then free_place(id, limit) end
end
-- register_ended(id, status, ttl, h, began): a job has ended, and is kept for `ttl` ms. The caller writes its text
-- after this, and removes it from its set. h: its fields; nil: it has only those of a first attempt, which began then
local function register_ended(id, status, ttl, h, began)
  if h and h.limit then leave_limit(id, h) end
  local list, score = endings[status], KEPT_UNTIL[ttl]
  if not list then
    list = {}
    endings[status] = list
  end
  if not score then
    score = whole(keep_until(ttl))
    KEPT_UNTIL[ttl] = score
  end
  list[#list + 1], list[#list + 2] = score, id
  if h and h.unique then free_lock(id, h) end
  if h and h.follow then follow_up(id, status, h) end
  if h and h.flow then notify_run(status, h) end
  if id:byte() == 99 then note_end(id, LETTER[status], began or h and finite(h.started_at)) end  -- c
end
-- failure(code, message): the error document of a job that a script ends
local function failure(code, message)
  return '{"code":"' .. code .. '","type":"","message":"' .. message .. '","traceback":""}'
end
-- cancel_waiting(id, h, ttl, score, code, message): ends a waiting job; the caller removes it from its set
local function cancel_waiting(id, h, ttl, score, code, message)
  leave_limit(id, h)
  h.score, h.ended_at, h.last_outcome = score, now, 'canceled'
  h.error = failure(code or 'CANCELED', message or 'it was canceled before it began')
  register_ended(id, 'canceled', ttl, h)
  add(ended_waiting, h.task, 'c')
  if events then events.record_ended('canceled', id, h) end
  save_job(id, h)
end
-- excess_ids(key, limit): the jobs to delete first from a registry with more than REGISTRY_KEPT jobs
local function excess_ids(key, limit)
  local excess = math.min(redis.call('ZCARD', key) - REGISTRY_KEPT, limit)
  local gone = {}
  if excess <= 0 then return gone end
  for _, id in ipairs(redis.call('ZRANGE', key, 0, excess - 1)) do
    if (time_of(id, 'e') or 0) + REMEMBERED <= now then gone[#gone + 1] = id end
  end
  return gone
end
-- trim(status, limit): deletes ended jobs that need no longer be kept, text and entry, at most `limit`; returns how
-- many
local function trim(status, limit)
  local key = ROOT .. ':' .. status
  local gone = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, limit)
  if #gone == 0 then gone = excess_ids(key, limit) end
  if #gone == 0 then return 0 end
  delete_jobs(gone)
  call_in_batches('ZREM', key, gone)
  return #gone
end
-- write_endings(): writes what was noted, and deletes as many old jobs as have ended, and a few more
local function write_endings()
  call_in_batches('ZREM', STARTED, left_started)
  for status, list in pairs(endings) do
    call_in_batches('ZADD', ROOT .. ':' .. status, list)
    trim(status, #list + 10)
  end
  left_started, endings = {}, {}
  if #ended_waiting > 0 and redis.call('HGET', CONF, 'metrics') then tallies().count_ended(ended_waiting) end
  ended_waiting = {}
  if has_posted then write_posted() end
end
