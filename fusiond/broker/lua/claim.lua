-- include: now queue many score wake line_up store broken ends inbox due rescue
--
-- claim(queue, want, dispatcher, nonce, lease_ms, max_rescues): the next jobs, each under a lease.
--
-- KEYS  1 ns:{q}
-- ARGV  1 want · 2 dispatcher · 3 nonce, the token of each attempt that this call begins · 4 lease, ms · 5 max_rescues
--       then, where it matters: how many jobs of the tasks that follow, at most · tasks
-- reply {more 0|1|2: the next job is one of such a task and above that number, ms until something comes due or -1, {id, task, args, attempts, crashes, rescues, header, ms from when it became ready to its claim, …},
--        {n, ms, …}: the n-th job must have begun within so many ms, or it expires
--        and only where jobs were rescued or ended here: {id, task, RESCUED or the code of its error, the sentence of its error or empty,
--        attempts, rescues, token of the lost lease or empty, ms that its last attempt or it itself waited, log tag, …}}
--        and in the same form, without id and task, each body that was put aside as broken: BROKEN and the reason
--
-- moves inbox     -> queue | scheduled | broken
--       scheduled -> queue              its time has come: a new place in its priority's row
--       started   -> queue              its lease has expired: its old place, rescues + 1
--       started   -> failed             LEASE_LOST, above max_rescues, or at once where its attempt alone was permitted to begin
--       started   -> canceled           its lease has expired and a cancel was asked
--       queue     -> failed             EXPIRED, BAD_ARGUMENTS: larger than a child is handed
--       queue     -> started            lease, token, attempt + 1
--       queue | scheduled | started -> broken   no hash, or one that is no job's
-- A repeat with the same nonce gives the same jobs again, leases renewed, and tells the same of the others. Fewer than `want`, and no more to be had: the caller is
-- noted as waiting. A reply ends with the job that takes it over 1 MB; the others stay where they are, and `more` says so.
-- touches conf queue scheduled started seq job claim inbox broken failed canceled wake

local want, dispatcher, nonce = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local lease, max_rescues = tonumber(ARGV[4]), tonumber(ARGV[5])
local few, most_of = tonumber(ARGV[6]), {}
for i = 7, #ARGV do most_of[ARGV[i]] = true end
local LAST = ROOT .. ':claim:' .. dispatcher
local CHORES = 100                -- of each kind, at most, in one call
local REPEATABLE = 60000          -- ms
local NOW, LEASE_ENDS = whole(now), whole(now + lease)
local LARGEST_BODY = 2097152      -- bytes, twice what a producer may give; whatever is larger was written by another program
local LONGEST_ID = 1024           -- bytes, likewise
local LARGE_REPLY = 1048576       -- bytes of bodies; a slow link must be able to bring it within the time of one reply

-- at maxmemory a script passes whose first write frees memory (also: raises here if the key is no set, before any write)
redis.call('ZREM', QUEUE, '')

local given, expiring, last, bytes = {}, {}, 0, 0
local leases, ids = {}, {}

-- first_begin(attempts, rescues): whether none of the attempts so far is known to have begun: a release undoes its attempt, a rescue
-- counts one of which nobody knows, and what is renewed once it has begun has no expires_at any more
local function first_begin(attempts, rescues)
  return count(attempts) <= count(rescues)
end

-- give(id, h, attempts, started): the reply's part about one job, this attempt counted; `started`: when it was claimed
local function give(id, h, attempts, started)
  given[last + 1], given[last + 2], given[last + 3], given[last + 4] = id, h[1], h[2], attempts
  given[last + 5], given[last + 6] = h[4] and count(h[4]) or 0, h[5] and count(h[5]) or 0
  given[last + 7], given[last + 8] = h[6] or '', math.max(0, started - (finite(h[8] or h[9]) or started))
  last, bytes = last + 8, bytes + #(h[2] or '') + #(h[6] or '')
  ids[#ids + 1] = id
  leases[#leases + 1], leases[#leases + 2] = LEASE_ENDS, id
  local expires = h[7] and finite(h[7])
  if expires and first_begin(attempts - 1, h[5]) then add(expiring, #ids, expires - now) end
end

-- reply(more): also when something comes due, or a lease expires
local function reply(more)
  local due = tonumber(redis.call('ZRANGE', SCHEDULED, 0, 0, 'WITHSCORES')[2]) or math.huge
  due = math.min(due, tonumber(redis.call('ZRANGE', STARTED, 0, 0, 'WITHSCORES')[2]) or math.huge)
  return {
    more == 'few' and 2 or more and 1 or 0, due < math.huge and math.max(due - now, 0) or -1, given, expiring,
    #told > 0 and told or nil,
  }
end

-- 0. the same call again: its reply was lost
local before = redis.call('GET', LAST)
if before and before:sub(1, #nonce + 1) == nonce .. ' ' then
  local list, rest = before:sub(#nonce + 2):match('^([^\n]*)\n?(.*)$')
  if rest ~= '' then told = cjson.decode(rest) end
  for id in list:gmatch('[^ ]+') do
    local h = redis.pcall('HMGET', JOB .. id, 'task', 'args', 'attempts', 'crashes', 'rescues', 'header', 'expires_at', 'queued_at', 'created_at', 'started_at', 'token')
    if h[11] == nonce then give(id, h, count(h[3]), finite(h[10]) or now) end
  end
  many('ZADD', STARTED, leases, 'XX')
  return reply(false)
end

-- 1. take in the inbox · 2. scheduled jobs that are due -> queue · 3. expired leases -> queue, the old place
local more = take_in(CHORES)
more = promote(CHORES) or more
more = rescue_expired(CHORES, max_rescues) or more
local moved = line_up()

-- 4. the first of the queue -> started
-- begin(id, score): true where it must stay where it was
local function begin(id, score)
  local key = JOB .. id
  local h = redis.pcall('HMGET', key, 'task', 'args', 'attempts', 'crashes', 'rescues', 'header', 'expires_at', 'queued_at', 'created_at')
  if h.err or not h[1] or not h[2] or #id > LONGEST_ID then return break_job(id) end
  local code, why
  if #h[2] > LARGEST_BODY or #(h[6] or '') > LARGEST_BODY then
    code, why = 'BAD_ARGUMENTS', 'its body is larger than ' .. LARGEST_BODY .. ' bytes'
  elseif h[7] and first_begin(h[3], h[5]) and (tonumber(h[7]) or math.huge) <= now then
    code, why = 'EXPIRED', count(h[5]) == 0 and 'it had not begun when it expired' or 'it is not known to have begun before it expired'
  end
  if code then return end_job(id, 'failed', code, why, FAILED_KEPT, score, h[1], h[3], count(h[5]), '', h[8] or h[9], now, h[6]) end
  if most_of[h[1]] then
    if few <= 0 then return true end
    few = few - 1
  end
  local attempts = h[3] and count(h[3]) + 1 or 1
  redis.call('HSET', key, 'score', score, 'started_at', NOW, 'attempts', attempts, 'token', nonce)
  give(id, h, attempts, now)
end
local conf = redis.call('HMGET', CONF, 'suspended_operator', 'suspended_file')
local suspended = conf[1] or conf[2]
local looked, stays = 0, nil
while not suspended and not stays and #ids < want and looked < want + CHORES and bytes < LARGE_REPLY do
  local popped, back = redis.call('ZPOPMIN', QUEUE, want - #ids), {}
  if #popped == 0 then break end
  for i = 1, #popped, 2 do
    local keep = stays or bytes >= LARGE_REPLY
    if not keep then
      stays = begin(popped[i], popped[i + 1])
      keep = stays
    end
    if keep then add(back, popped[i + 1], popped[i]) end
  end
  many('ZADD', QUEUE, back)
  looked = looked + #popped / 2
end
if #ids > 0 then many('ZADD', STARTED, leases) end
for _, reason in ipairs(put_aside) do tell('', 'BROKEN', reason:sub(1, 255), '', 0, 0) end
if #ids > 0 or #told > 0 then
  local others = #told > 0 and '\n' .. cjson.encode(told) or ''
  redis.call('SET', LAST, nonce .. ' ' .. table.concat(ids, ' ') .. others, 'PX', REPEATABLE)
end

-- 5. who waits, and who is to be woken
local left = not suspended and redis.call('ZCARD', QUEUE) > 0
if #ids < want and not suspended and not left then
  redis.call('SET', WAKE, '1', 'PX', 15000)
elseif moved and left then
  wake()
end
return reply(stays and 'few' or more or left)
