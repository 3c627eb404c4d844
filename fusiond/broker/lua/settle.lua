-- include: now queue many score wake line_up ends
--
-- settle(queue, outcomes): ends attempts.
--
-- KEYS  1 ns:{q}
-- ARGV  per outcome: id, token, kind, ms, crash 0|1, payload, why
--         kind finished | failed | canceled   ms: how long the job is kept    payload: result | error | error
--              retry                          ms: delay                       payload: error
--              released                       ms: delay, 0: its old place     payload: not empty: it had begun, is interrupted and expires no more
--              unknown                        ms: delay                       payload: error, with which it fails in the end
--              unloaded                       ms: first delay                 payload: the same; the delay doubles, up to 5 minutes
--         why  what `last_outcome` will say; empty: nothing worth saying
-- reply per outcome: 1 settled · 2 this very attempt was settled before · 0 fenced: the lease was lost
--       and of an outcome after which the job would go on: 3 it has failed instead · 4 it was canceled instead; repeats, too
--
-- moves started -> finished | failed | canceled
--               -> scheduled    retry, attempt counted; released with a delay, attempt undone
--               -> queue        released, its old place, attempt undone
--               -> canceled     retry, released, unknown or unloaded, if a cancel was asked
--               -> scheduled    unknown: no task of that name there, another host may have it; attempt undone
--               -> scheduled    unloaded: the task's function does not load there just now; attempt undone
--               -> failed       unknown or unloaded, once that has been so for an hour
-- Each call drops as many jobs whose time is over as it adds, and a few more.
-- touches started queue scheduled finished failed canceled job wake

redis.call('ZREM', STARTED, '')
local UNKNOWN_GRACE = 3600000     -- ms, 1 hour: how long a roll-out may take; so long such a job is kept, too
local LONGEST_UNLOADED = 300000   -- ms, 5 minutes: between two attempts to run a job whose task does not load
local NOW, KEPT_UNTIL = whole(now), {}
local GOES_ON = { retry = true, released = true, unknown = true, unloaded = true }
local replies, ended = {}, {}
local gone = {}

local function register(status, id, ttl)
  local list = ended[status]
  if not list then
    list = {}
    ended[status] = list
  end
  local score = KEPT_UNTIL[ttl]
  if not score then
    score = whole(keep_until(ttl))
    KEPT_UNTIL[ttl] = score
  end
  list[#list + 1], list[#list + 2] = score, id
end

-- finish(): the hot path, two commands a job
local function finish(key, id, token, ttl, result, why)
  if why ~= '' then
    redis.call('HSET', key, 'result', result, 'ended_at', NOW, 'token', '', 'last_token', token, 'last_outcome', why)
  else
    redis.call('HSET', key, 'result', result, 'ended_at', NOW, 'token', '', 'last_token', token)
  end
  register('finished', id, ttl)
end

-- note(): an attempt that did not finish; with further fields and their values
local function note(key, token, outcome, err, crashes, ...)
  local fields = { 'token', '', 'last_token', token, 'last_outcome', outcome, ... }
  if err ~= '' then add(fields, 'error', err) end
  if crashes then add(fields, 'crashes', crashes) end
  redis.call('HSET', key, unpack(fields))
end

-- stop(): failed or canceled
local function stop(key, id, token, status, ttl, err, why, crashes)
  note(key, token, why ~= '' and why or status, err, crashes, 'ended_at', now)
  register(status, id, ttl)
end

-- again(): retry
local function again(key, id, token, delay, err, why, crashes)
  note(key, token, why ~= '' and why or 'retry', err, crashes)
  add(later_on, now + delay, id)
end

-- release(): as if it had never been claimed
local function release(key, id, token, delay, why, attempts, score)
  local outcome = why ~= '' and why or 'released'
  redis.call('HSET', key, 'token', '', 'last_token', token, 'last_outcome', outcome, 'attempts', attempts - 1)
  if delay > 0 then
    add(later_on, now + delay, id)
  else
    add(ready, finite(score) or 254 * BAND, id)
  end
end

-- note_unknown(): since when no host that had the job could run its task; what else becomes of it ends that. Whether it is too long
local function note_unknown(key, kind, since)
  if kind ~= 'unknown' and kind ~= 'unloaded' then
    if since then redis.call('HDEL', key, 'unknown_since') end
  elseif finite(since) then
    return now - since >= UNKNOWN_GRACE
  else
    redis.call('HSET', key, 'unknown_since', now)
  end
end

-- other_than_finished(): needs more of the hash, which the hot path does not read; its reply, where that is not 1
local function other_than_finished(key, id, token, kind, ms, payload, why, crashed)
  local h = redis.call('HMGET', key, 'crashes', 'attempts', 'score', 'cancel', 'unknown_since', 'interrupted')
  local crashes = crashed and count(h[1]) + 1 or nil
  local never = note_unknown(key, kind, h[5])
  if kind == 'failed' or kind == 'canceled' then
    stop(key, id, token, kind, ms, payload, why, crashes)
  elseif h[4] then
    stop(key, id, token, 'canceled', h[4], failure('CANCELED', 'it was canceled while it ran'), 'canceled', crashes)
    return 4
  elseif never then
    stop(key, id, token, 'failed', UNKNOWN_GRACE, payload, '', crashes)
    return 3
  elseif kind == 'retry' then
    again(key, id, token, ms, payload, why, crashes)
  else
    if kind == 'released' and payload ~= '' then
      redis.call('HDEL', key, 'expires_at')
      redis.call('HSET', key, 'interrupted', count(h[6]) + 1)
    end
    if kind == 'unloaded' then
      -- as long again as it has been so: the delay doubles
      ms = math.max(ms, math.min(now - (finite(h[5]) or now), LONGEST_UNLOADED))
    end
    release(key, id, token, ms, why, math.max(count(h[2]), 1), h[3])
  end
end

for i = 1, #ARGV, 7 do
  local id, token, kind = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local key = JOB .. id
  local h = redis.pcall('HMGET', key, 'token', 'last_outcome')
  if h[1] ~= token then
    replies[#replies + 1] = redis.pcall('HGET', key, 'last_token') == token and 2 or 0
    if replies[#replies] == 2 and GOES_ON[kind] and (h[2] == 'failed' or h[2] == 'canceled') then
      replies[#replies] = h[2] == 'failed' and 3 or 4
    end
  else
    local ms, payload, why = tonumber(ARGV[i + 3]), ARGV[i + 5], ARGV[i + 6]
    replies[#replies + 1] = 1
    gone[#gone + 1] = id
    if kind == 'finished' then
      -- an outcome of an earlier attempt must not be read as this one's
      finish(key, id, token, ms, payload, why == '' and h[2] and kind or why)
    else
      replies[#replies] = other_than_finished(key, id, token, kind, ms, payload, why, ARGV[i + 4] == '1') or 1
    end
  end
end

many('ZREM', STARTED, gone)
for status, list in pairs(ended) do
  many('ZADD', ROOT .. ':' .. status, list)
  trim(status, #list + 10)
end
if line_up() then wake() end
return replies
