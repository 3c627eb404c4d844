-- include: now queue batches score text job events ready places wake rate argument_values turns store room broken
-- include: locks follow tally ticks endings unique rescue held_tasks limiter inbox due reassign_turns
--
-- claim(queue, want, dispatcher, nonce, lease_ms, max_rescues, reservation, few, again, has, tasks): the next jobs,
-- each under a lease.
--
-- KEYS  1 ns:{q}
-- ARGV  1 want · 2 dispatcher · 3 nonce, the token of each attempt that this call begins · 4 lease, ms · 5 max_rescues
--       6 a token under which an enqueue may claim one job for the caller (claim_on_enqueue.lua); empty: none
--       7 few: how many children of the caller are free: the most jobs of the tasks that follow, and of a queue with a
--         limit; the token counts only if the call gets fewer jobs
--       8 again, 1: repeats a request that got no reply; else 0
--       9 has: what the caller knows of conf `held_tasks`: "<version> <task> …", with the tasks there that it can run,
--         or `<task>=<n>`: so many jobs of it; empty: nothing
--       then the tasks of which the caller takes only `few` jobs
-- reply {more: 0, 1, or 2: the next job is above `few`, ms until something is due or -1,
--        {id, task, args, ms from when it became ready to its claim, …},
--        {n, attempts, crashes, rescues, header, …}: of the n-th job, if it has a header or is not in
--        its first attempt,
--        {n, ms, …}: this attempt of the n-th job must begin within so many ms, or the job expires,
--        only if jobs were taken back or ended: {id, task, RESCUED or the code of its error, the message of its error
--        or empty, attempts, rescues, token of the lost lease or empty, ms that its last attempt or the job waited,
--        log tag, …}
--        and in the same form, without id and task, each body that is broken: BROKEN and the reason,
--        only if `has` is of another version: conf `held_tasks`, or empty; the caller claims again}
--
-- moves inbox     -> queue | scheduled | broken | gone   gone: another job holds its lock, and on_conflict is skip
--       queue | held | scheduled | deferred -> canceled   a job from the inbox replaces it
--       scheduled -> queue              it is due: behind the others of its priority
--       started   -> queue              its lease has expired: its old score, rescues + 1
--       started   -> failed             LEASE_LOST: more than max_rescues, or its permit was for that attempt only
--       started   -> canceled           its lease has expired and a cancel was asked
--       queue     -> held               its limit has no place or token, or the caller lacks its task
--       held      -> queue              the limit has one again, or the caller has its task: the old score
--       queue | held -> failed          EXPIRED, BAD_ARGUMENTS: larger than a child accepts
--       queue     -> started            lease, token, attempt + 1
--       queue | scheduled | started -> broken   no text, or not a job
-- A repeat renews the leases of the same jobs and gives the same reply, but for `more`, which is 1, as it does not look
-- at the queue. It never chooses jobs: if the note of the last claim has another nonce, it gives none, and the caller
-- claims with a new nonce. So a nonce gets jobs only once.
-- A caller that gets fewer jobs than it wants, and that no other limit stops than max_running, is noted as waiting. If
-- the rate stops it, the reply says when it may ask again. The job that takes a reply over 1 MB is the last one in it;
-- the others stay, and `more` is 1.
-- touches conf ticks queue tenants held again places scheduled started seq job unique claim rate inbox broken failed
--         canceled events metrics wake

local want, dispatcher, nonce = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local lease, max_rescues = tonumber(ARGV[4]), tonumber(ARGV[5])
local reservation, free_left, once_tasks = ARGV[6], tonumber(ARGV[7] or ARGV[1]), {}
local free_children = free_left   -- `free_left` is counted down below
local IS_REPEAT = ARGV[8] == '1'
local known_names, runnable = ARGV[9] or '', {}  -- `runnable`: task in it -> how many jobs
for task, number in known_names:gmatch(' ([^ =]+)=?(%d*)') do
  runnable[task] = tonumber(number) or math.huge
end
for i = 10, #ARGV do once_tasks[ARGV[i]] = true end
local LAST_CLAIM = ROOT .. ':claim:' .. dispatcher
local UPKEEP = 100                -- of each kind, at most, in one call
local REASSIGNED = 500            -- jobs that get new turns, at most, in one call
local REPEATABLE = 60000          -- ms
local LEASE_ENDS = whole(now + lease)
local TOKEN = 't' .. escape(nonce) .. ' '
local LARGEST_BODY = 2097152      -- bytes, twice the maximum of producers; another program has written what is larger
local LONGEST_ID = 1024           -- bytes; another program has written a longer id
local HELD_AT_ONCE = 500          -- jobs that one call holds for their tasks, about
-- bytes of bodies; a slow link must be able to transfer it within the time limit of a reply
local LARGE_REPLY = 1048576

-- at maxmemory Redis runs a script whose first write frees memory; if the key is not a set, this raises before any
-- write
redis.call('ZREM', QUEUE, '')

local jobs, details, expiring, last, bytes = {}, {}, {}, 0, 0
local leases, ids = {}, {}

-- add_job(id, task, args, waited): adds a job to the reply
local function add_job(id, task, args, waited)
  jobs[last + 1], jobs[last + 2], jobs[last + 3], jobs[last + 4] = id, task, args, waited
  last, bytes = last + 4, bytes + #args
  local n = #ids + 1
  ids[n], leases[2 * n - 1], leases[2 * n] = id, LEASE_ENDS, id
end

-- add_details(attempts, crashes, rescues, header): of the job that was added last
local function add_details(attempts, crashes, rescues, header)
  for _, value in ipairs({ #ids, attempts, crashes, rescues, header }) do details[#details + 1] = value end
  bytes = bytes + #header
end

-- add_decoded(id, h): adds a decoded job, after its claim
local function add_decoded(id, h)
  local started, attempts = finite(h.started_at) or now, count(h.attempts)
  add_job(id, h.task, h.args, math.max(0, started - (finite(h.queued_at or h.created_at) or started)))
  add_details(attempts, count(h.crashes), count(h.rescues), h.header or '')
  local expires = finite(h.expires_at)
  if expires then add(expiring, #ids, expires - now) end
end

-- reply(more, pause, newer_names): also computes the time until something is due, a lease expires, or the pause is over
local function reply(more, pause, newer_names)
  local due = tonumber(redis.call('ZRANGE', SCHEDULED, 0, 0, 'WITHSCORES')[2]) or math.huge
  due = math.min(due, tonumber(redis.call('ZRANGE', STARTED, 0, 0, 'WITHSCORES')[2]) or math.huge)
  if limiter then due = math.min(due, tonumber(redis.call('ZRANGE', AGAIN, 0, 0, 'WITHSCORES')[2]) or math.huge) end
  if pause then due = math.min(due, now + pause) end
  return {
    more == 'few' and 2 or more and 1 or 0, due < math.huge and math.max(due - now, 0) or -1, jobs, details, expiring,
    (newer_names or #reclaimed > 0) and reclaimed or nil, newer_names,
  }
end

-- 0. a repeat: the reply was lost
local before = redis.call('GET', LAST_CLAIM)
local is_known = before and before:sub(1, #nonce + 1) == nonce .. ' '
if is_known or IS_REPEAT then
  if not is_known then
    before = nonce .. ' '
    -- if the first request arrives later, it finds this note and takes no jobs: nobody waits for its reply
    redis.call('SET', LAST_CLAIM, before, 'PX', REPEATABLE)
  end
  local list, rest = before:sub(#nonce + 2):match('^([^\n]*)\n?(.*)$')
  if rest ~= '' then reclaimed = cjson.decode(rest) end
  for id in list:gmatch('[^ ]+') do
    local h = load_job(id)
    if h and h.token == nonce then add_decoded(id, h) end
  end
  call_in_batches('ZADD', STARTED, leases, 'XX')
  return reply(true)
end

-- 1. inbox -> queue · 2. due jobs -> queue · 3. expired leases -> queue, held jobs that may run -> queue
local conf = redis.call('HMGET', CONF, 'suspended_operator', 'suspended_file', 'max_running', 'rate', 'limits',
  'fair', 'placing', 'gaps', 'metrics', 'events', 'held_tasks')
local suspended, held_names = conf[1] or conf[2], conf[11]
read_limits(conf[5], held_names)
read_events(conf[10], dispatcher)
local fair = conf[6] or conf[7]
local more = fair and reassign_turns(conf[6], conf[7], conf[8], REASSIGNED)
more = take_in(UPKEEP) or more
more = promote(UPKEEP) or more
more = rescue_expired(UPKEEP, max_rescues) or more
if limiter then more = limiter.recheck(UPKEEP) or more end
write_endings()
-- release_runnable(): held -> queued, the jobs that the caller can run and that come before the last job that it wants
local function release_runnable()
  local last = redis.call('ZRANGE', QUEUE, want - 1, want - 1, 'WITHSCORES')[2] or '+inf'
  for task, number in pairs(runnable) do
    local page = redis.call('ZRANGEBYSCORE', HELD_BY .. '?' .. task, '-inf', last, 'WITHSCORES', 'LIMIT', 0,
      math.min(want, number))
    release_jobs(task, page, 'its task can run')
  end
end
for word in pairs(held_names and suspended_tasks() or {}) do runnable[word] = nil end
if held_names and want > 0 and not suspended then release_runnable() end
local must_wake_others = write_ready() or must_wake

-- 4. how many jobs the limits of the queue allow
local max_running = tonumber(conf[3])
local every, burst = (conf[4] or ''):match('^(%S+) (%S+)$')
local most, stop_reason, spent = want, nil, nil
-- limit_to(number, what): at most that many jobs begin; what: the reason
local function limit_to(number, what)
  if number < most then most, stop_reason = math.max(0, number), what end
end
if max_running then limit_to(max_running - redis.call('ZCARD', STARTED), 'running') end
if every then
  local free_children
  every, burst = tonumber(every), tonumber(burst)
  free_children, spent = rates().tokens(RATE, every, burst)
  limit_to(free_children, 'rate')
end
-- last: if another limit stops the call, it does not matter whether a child is free
if max_running or every then limit_to(free_left, 'few') end
local LIMIT = max_running and '-'  -- field `limit` of each job of this queue

-- 5. the first jobs of the queue -> started
local begun = {}                  -- jobs of this call in their first attempt: {key, text, …}
local held = {}                   -- tasks of the jobs that a limit holds
-- exceeds_free(task): counts a job of this task; returns whether no child is free for it
local function exceeds_free(task)
  if not (once_tasks[task] or limits and limits[task]) then return false end
  free_left = free_left - 1
  return free_left < 0
end

-- begin_decoded(id, text, score): returns true if the job must stay in the queue
local function begin_decoded(id, text, score)
  local h = text and #id <= LONGEST_ID and with_args(id, decode(text))
  if not h then return break_job(id) end
  local code, why
  if #h.args > LARGEST_BODY or #(h.header or '') > LARGEST_BODY then
    code, why = 'BAD_ARGUMENTS', 'its body is larger than ' .. LARGEST_BODY .. ' bytes'
  elseif h.expires_at and (tonumber(h.expires_at) or math.huge) <= now then
    code, why = 'EXPIRED', expiry_message(h)
  end
  local limit, key = limits and limits[h.task], nil
  if limit and not code then
    local good
    good, key = pcall(limiter.key_of_body, h.task, h.args)
    if not good then code, why = 'BAD_ARGUMENTS', 'its task has a limit, and ' .. key end
  end
  if code then return fail_unclaimed(id, h, code, why, score) end
  if limit and limiter.is_full(limiter.room_of(key, limit)) then
    held[#held + 1] = h.task
    return limiter.hold(id, h, key, score)
  end
  if exceeds_free(h.task) then return true end
  if h.unique and h.unique:find('^started,') then free_lock(id, h) end
  -- another limit had held it, which now releases its next job
  if h.limit and h.limit ~= key then leave_limit(id, h) end
  h.limit = limit and limiter.take_place(id, key, limit, nonce) or LIMIT
  h.score, h.started_at, h.attempts, h.token, h.progress = score, now, count(h.attempts) + 1, nonce, nil
  save_job(id, h)
  add_decoded(id, h)
  if events then events.record_job('claimed', id, h) end
end

-- first_claim(state): how a job begins that was never claimed before. Its state has its creation and, if set, its
-- expiry. Jobs created together often have the same state, so the result is kept. false: another job
local FIRST_CLAIM = {}
local function first_claim(state)
  local created, task, header, large, rest = state:match('^c(%d+) l([1-9]%d*),(%d+),?(%d*)(.*)$')
  local expires = created and rest:match('^ x(%d+)$')
  -- not if it was created later than now: the clock was put back
  local is_first = created and tonumber(created) <= now and (rest == '' or expires and created + expires > now)
  FIRST_CLAIM[state] = is_first and {
    held = TOKEN .. state .. ' b' .. now - created .. ' n1 ' .. (LIMIT and 'p' .. LIMIT .. ' ' or '') .. 's',
      waited = now - created, expires = expires and created + expires - now,
    header_at = task + 2, args_at = task + header + 3, has_header = header ~= '0', large = large ~= '' and large,
  }
  return FIRST_CLAIM[state]
end

-- begin(id, text, score): as begin_decoded; the hot path
local function begin(id, text, score)
  local at = text and text:find('\n', 1, true)
  local state = at and text:sub(1, at - 1)
  local first = state and FIRST_CLAIM[state]
  if first == nil and state then first = first_claim(state) end
  if not first or #text > LARGEST_BODY or #id > LONGEST_ID
    or id:find('\n', 1, true) or score:find('%D') then return begin_decoded(id, text, score) end
  local header_at, args_at = at + first.header_at, at + first.args_at
  local task, args = text:sub(at + 1, header_at - 2), first.large and large_args(id, first.large) or text:sub(args_at)
  if text:byte(header_at - 1) ~= 10 or text:byte(args_at - 1) ~= 10
    or #args == 0 or #args > LARGEST_BODY then return begin_decoded(id, text, score) end
  if limits and limits[task] then return begin_decoded(id, text, score) end
  if exceeds_free(task) then return true end
  add(begun, JOB .. id, first.held .. score .. text:sub(at))
  add_job(id, task, args, first.waited)
  local header = first.has_header and text:sub(header_at, args_at - 2)
  if events then events.record('claimed', id, task, header and events.header_words(header)) end
  if header then add_details(1, 0, 0, header) end
  if first.expires then add(expiring, #ids, first.expires) end
end

local unknown = {}                -- task -> its word, if conf lists it, or false
local to_hold, held_count = {}, 0  -- task -> {score, id, …} · how many
-- is_unknown(task): counts a job of this task; returns whether the caller can begin no more of them
local function is_unknown(task)
  if unknown[task] == nil then unknown[task] = is_listed(held_names, task) and escape(task) end
  local word = unknown[task]
  if not word then return false end
  runnable[word] = (runnable[word] or 0) - 1
  return runnable[word] < 0
end
-- may_be_held(id, state): false: it has expired or cannot be read, so it ends when it is to begin
local function may_be_held(id, state)
  if not state:find(' [px]') then return true end
  local h = load_job(id)
  if not h or h.expires_at and (finite(h.expires_at) or math.huge) <= now then return false end
  watch_expiry(id, h)
  if h.limit then
    leave_limit(id, h)
    save_job(id, h)
  end
  return true
end
-- separate_unknown(popped, texts): notes the jobs to hold, whose tasks the caller lacks; returns the others, and their
-- texts
local function separate_unknown(popped, texts)
  local others, texts_of_others = {}, {}
  for i = 1, #popped, 2 do
    local id, text = popped[i], texts[(i + 1) / 2]
    local state, task = (text or ''):match('^([^\n]*)\n([^\n]*)\n')
    if task and is_unknown(task) and may_be_held(id, state) then
      to_hold[task] = to_hold[task] or {}
      add(to_hold[task], popped[i + 1], id)
      held_count = held_count + 1
      if events then events.record('held', id, task) end
    else
      add(others, id, popped[i + 1])
      texts_of_others[#texts_of_others + 1] = text
    end
  end
  return others, texts_of_others
end
-- begin_page(popped, texts): claims jobs of {id, score, …} until there are enough; puts back the rest. True: no child
-- is free for the next one
local function begin_page(popped, texts)
  local returned, stays = {}, nil
  for i = 1, #popped, 2 do
    local full = stays or bytes >= LARGE_REPLY or #ids >= most
    if not full then
      stays = begin(popped[i], texts[(i + 1) / 2], popped[i + 1])
      full = stays
    end
    if full then add(returned, popped[i + 1], popped[i]) end
  end
  call_in_batches('ZADD', QUEUE, returned)
  if fair then (turns or reassigned_turns).note_claimed(popped, #popped - #returned) end
  return stays
end
local looked, stays, page = 0, nil, most
while not suspended and not stays and #ids < most
  and looked < most + UPKEEP and held_count < HELD_AT_ONCE and bytes < LARGE_REPLY do
  local popped = redis.call('ZPOPMIN', QUEUE, math.min(page, PAGE))
  if #popped == 0 then break end
  local texts = texts_of(popped, 1, #popped)
  if held_names then popped, texts = separate_unknown(popped, texts) end
  stays = begin_page(popped, texts)
  looked = looked + #popped / 2
  page = #popped == 0 and PAGE or most - #ids
end
local has_new_held                -- jobs of a task are held that had no held jobs
for task, jobs in pairs(to_hold) do has_new_held = hold_jobs(task, jobs) or has_new_held end
-- Only now: after an error above, jobs would have the text of a claimed job and be in no set, and each would count a
-- rescue
write_texts(begun)
if #ids > 0 then call_in_batches('ZADD', STARTED, leases) end
if reassigned_turns then reassigned_turns.write() end
must_wake_others = write_ready() or must_wake_others
if every and #ids > 0 then
  spent = spent + #ids * every
  rates().spend(RATE, spent)
end
write_endings()
if conf[9] and (#reclaimed > 0 or #held > 0) then tallies().count_reclaimed(reclaimed, held) end
for _, reason in ipairs(broken_reasons) do report_reclaimed('', 'BROKEN', reason:sub(1, 255), '', 0, 0) end
if #ids > 0 or #reclaimed > 0 then
  local others = #reclaimed > 0 and '\n' .. cjson.encode(reclaimed) or ''
  redis.call('SET', LAST_CLAIM, nonce .. ' ' .. table.concat(ids, ' ') .. others, 'PX', REPEATABLE)
end

if events then events.write() end

-- 6. note that the caller waits, wake other dispatchers
if has_new_held then wake() end
local left = not suspended and redis.call('ZCARD', QUEUE) > 0
if held_names and not suspended then
  for task, number in pairs(runnable) do
    left = left or number > 0 and redis.call('EXISTS', HELD_BY .. '?' .. task) == 1
  end
end
if fair and not suspended and not left then redis.call('DEL', TENANTS) end
local stopped = left and #ids >= most and stop_reason
if #ids < want and not suspended and (not left or stopped == 'running') then
  -- in a queue with tenants, a limit or tasks with limits only a claim may begin jobs
  local is_plain = not (max_running or every or limits or fair or held_names)
  local can_reserve = reservation ~= '' and #ids < free_children and is_plain
  redis.call('SET', WAKE, can_reserve and reservation .. ' ' .. whole(now) or '1', 'PX', WAITS)
elseif must_wake_others and left then
  wake()
end
-- the caller knows another version of conf `held_tasks`
local newer_names = ARGV[9] and known_names:match('^%d*') ~= (held_names or ''):match('^%d*')
  and (held_names or '') or nil
return reply((stays or stopped == 'few') and 'few' or more or left and not stopped or newer_names and held_names,
  stopped == 'rate' and rates().until_next(spent, every, burst), newer_names)
