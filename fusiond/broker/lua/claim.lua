-- include: now queue many score wake schedule broken ends inbox
--
-- claim(queue, want, dispatcher, nonce, lease_ms, max_rescues): the next jobs, each under a lease.
--
-- KEYS  1 ns:{q}
-- ARGV  1 want · 2 dispatcher · 3 nonce, the token of each attempt that this call begins · 4 lease, ms · 5 max_rescues
-- reply {more 0|1, suspended 0|1, ms until something comes due or -1, {id, task, args, attempts, crashes, rescues, header, …}}
--
-- moves inbox     -> queue | scheduled | broken
--       scheduled -> queue              its time has come: a new place in its priority's row
--       started   -> queue              its lease has expired: its old place, rescues + 1
--       started   -> failed             LEASE_LOST, above max_rescues
--       started   -> canceled           its lease has expired and a cancel was asked
--       queue     -> failed             EXPIRED, BAD_ARGUMENTS: larger than a child is handed
--       queue     -> started            lease, token, attempt + 1
--       queue | scheduled | started -> broken   no hash, or one that is no job's
-- A repeat with the same nonce gives the same jobs again, leases renewed. Fewer than `want`, and no more to be had: the caller is
-- noted as waiting. A reply ends with the job that takes it over 8 MB; the others stay where they are, and `more` says so.
-- touches conf queue scheduled started seq job claim inbox broken failed canceled wake

local want, dispatcher, nonce = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local lease, max_rescues = tonumber(ARGV[4]), tonumber(ARGV[5])
local LAST = ROOT .. ':claim:' .. dispatcher
local CHORES = 100                -- of each kind, at most, in one call
local REPEATABLE = 60000          -- ms
local LARGEST_BODY = 2097152      -- bytes, twice what a producer may give; whatever is larger somebody has put here by hand
local LONGEST_ID = 1024           -- bytes, likewise
local LARGE_REPLY = 8388608       -- bytes of bodies; a slow link must be able to bring it before its leases are over

-- at maxmemory a script passes whose first write frees memory (also: raises here if the key is no set, before any write)
redis.call('ZREM', QUEUE, '')

local given, last, bytes = {}, 0, 0
local leases, ids = {}, {}

-- give(id, h): the reply's part about one job; h as FIELDS
local function give(id, h, attempts)
  given[last + 1], given[last + 2], given[last + 3], given[last + 4] = id, h[1], h[2], attempts
  given[last + 5], given[last + 6], given[last + 7] = count(h[4]), count(h[5]), h[6] or ''
  last, bytes = last + 7, bytes + #(h[2] or '') + #given[last + 7]
  ids[#ids + 1] = id
  leases[#leases + 1], leases[#leases + 2] = now + lease, id
end

-- first_due(key): the lowest score, or nil
local function first_due(key)
  return tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
end

local function reply(more, suspended)
  local due, expiry = first_due(SCHEDULED), first_due(STARTED)
  if expiry and (not due or expiry < due) then due = expiry end
  return { more and 1 or 0, suspended and 1 or 0, due and math.max(due - now, 0) or -1, given }
end

-- 0. the same call again: its reply was lost
local before = redis.call('GET', LAST)
if before and before:sub(1, #nonce + 1) == nonce .. ' ' then
  for id in before:sub(#nonce + 2):gmatch('[^ ]+') do
    local h = redis.pcall('HMGET', JOB .. id, 'task', 'args', 'attempts', 'crashes', 'rescues', 'header', 'token')
    if h[7] == nonce then give(id, h, count(h[3])) end
  end
  many('ZADD', STARTED, leases, 'XX')
  return reply(false, false)
end

-- 1. take in the inbox
local moved, more = take_in(CHORES)

-- 2. scheduled jobs that are due -> queue
local scheduled_due = first_due(SCHEDULED)
if scheduled_due and scheduled_due <= now then
  local due, ready = redis.call('ZRANGEBYSCORE', SCHEDULED, '-inf', now, 'LIMIT', 0, CHORES), {}
  local seq = redis.call('INCRBY', SEQ, #due) - #due
  for i, id in ipairs(due) do
    local h = redis.pcall('HMGET', JOB .. id, 'score', 'task')
    if h.err or not finite(h[1]) or not h[2] then
      break_job(id)
    else
      redis.call('HSET', JOB .. id, 'queued_at', now)
      ready[#ready + 1], ready[#ready + 2] = later(finite(h[1]), seq + i), id
    end
  end
  many('ZREM', SCHEDULED, due)
  many('ZADD', QUEUE, ready)
  moved, more = moved + #ready, more or #due == CHORES
end

-- 3. expired leases -> queue, the old place
local function end_job(id, status, code, message, ttl, score)
  local key = JOB .. id
  redis.call('HSET', key, 'ended_at', now, 'token', '', 'last_outcome', code:lower(), 'error', failure(code, message), 'score', score)
  redis.call('ZADD', ROOT .. ':' .. status, keep_until(ttl), id)
end
local function rescue(id, ready)
  local h = redis.pcall('HMGET', JOB .. id, 'score', 'task', 'rescues', 'cancel')
  local score = finite(not h.err and h[1])
  if not score or not h[2] then return break_job(id) end
  local rescues = count(h[3]) + 1
  if h[4] then
    end_job(id, 'canceled', 'CANCELED', 'it was canceled while it ran', h[4], score)
  elseif rescues > max_rescues then
    redis.call('HSET', JOB .. id, 'rescues', rescues)
    end_job(id, 'failed', 'LEASE_LOST', 'the lease of ' .. rescues .. ' attempts expired', FAILED_KEPT, score)
  else
    redis.call('HSET', JOB .. id, 'token', '', 'rescues', rescues, 'last_outcome', 'rescued', 'queued_at', now)
    ready[#ready + 1], ready[#ready + 2] = score, id
  end
end
local expiry = first_due(STARTED)
if expiry and expiry <= now then
  local expired, ready = redis.call('ZRANGEBYSCORE', STARTED, '-inf', now, 'LIMIT', 0, CHORES), {}
  for _, id in ipairs(expired) do rescue(id, ready) end
  many('ZREM', STARTED, expired)
  many('ZADD', QUEUE, ready)
  moved, more = moved + #ready, more or #expired == CHORES
end

-- 4. the first of the queue -> started
local function begin(id, score)
  local key = JOB .. id
  local h = redis.pcall('HMGET', key, 'task', 'args', 'attempts', 'crashes', 'rescues', 'header', 'expires_at')
  if h.err or not h[1] or not h[2] or #id > LONGEST_ID then return break_job(id) end
  if #h[2] > LARGEST_BODY or #(h[6] or '') > LARGEST_BODY then
    return end_job(id, 'failed', 'BAD_ARGUMENTS', 'its body is larger than ' .. LARGEST_BODY .. ' bytes', FAILED_KEPT, score)
  end
  -- a release puts attempts back to 0
  if h[7] and count(h[3]) == 0 and (tonumber(h[7]) or math.huge) <= now then
    return end_job(id, 'failed', 'EXPIRED', 'it had not begun when it expired', FAILED_KEPT, score)
  end
  local attempts = count(h[3]) + 1
  redis.call('HSET', key, 'score', score, 'started_at', now, 'attempts', attempts, 'token', nonce)
  give(id, h, attempts)
end
local conf = redis.call('HMGET', CONF, 'suspended_operator', 'suspended_file')
local suspended = conf[1] or conf[2]
local looked = 0
while not suspended and #ids < want and looked < want + CHORES and bytes < LARGE_REPLY do
  local popped, back = redis.call('ZPOPMIN', QUEUE, want - #ids), {}
  if #popped == 0 then break end
  for i = 1, #popped, 2 do
    if bytes < LARGE_REPLY then
      begin(popped[i], popped[i + 1])
    else
      back[#back + 1], back[#back + 2] = popped[i + 1], popped[i]
    end
  end
  many('ZADD', QUEUE, back)
  looked = looked + #popped / 2
end
if #ids > 0 then
  many('ZADD', STARTED, leases)
  redis.call('SET', LAST, nonce .. ' ' .. table.concat(ids, ' '), 'PX', REPEATABLE)
end

-- 5. who waits, and who is to be woken
local left = not suspended and redis.call('ZCARD', QUEUE) > 0
if #ids < want and not suspended and not left then
  redis.call('SET', WAKE, '1', 'PX', 15000)
elseif moved > 0 and left then
  wake()
end
return reply(more or left, suspended)
