-- include: now queue many score text job events line_up places wake rate by turns store room broken locks follow tally ends unique rescue held_tasks held inbox due placing
--
-- claim(queue, want, dispatcher, nonce, lease_ms, max_rescues, reservation, few, again, has, tasks): the next jobs, each under a lease.
--
-- KEYS  1 ns:{q}
-- ARGV  1 want · 2 dispatcher · 3 nonce, the token of each attempt that this call begins · 4 lease, ms · 5 max_rescues
--       6 a token under which an enqueue may claim one job for the caller (give.lua); empty: none
--       7 few: how many children of the caller are free; no more jobs than that of the tasks that follow, nor of a queue that has a limit, and
--         no token where it gets jobs for all of them · 8 again, 1: the repeat of a request that got no reply; else 0
--       9 has: what the caller knows of conf `held_tasks`: "<version> <task> …", those of the tasks there that it can run; empty: nothing · tasks
-- reply {more 0|1|2: the next job is one of these and above that number, ms until something comes due or -1,
--        {id, task, args, ms from when it became ready to its claim, …},
--        {n, attempts, crashes, rescues, header, …}: of the n-th job, where it is not its first attempt and no more; this one counted
--        {n, ms, …}: this attempt of the n-th job must begin within so many ms, or the job expires
--        and only where jobs were taken back or ended here: {id, task, RESCUED or the code of its error, the sentence of its error or empty,
--        attempts, rescues, token of the lost lease or empty, ms that its last attempt or it itself waited, log tag, …}
--        and in the same form, without id and task, each body that was put aside as broken: BROKEN and the reason
--        and only where `has` is of another version: conf `held_tasks`, empty where there is none; the caller claims again}
--
-- moves inbox     -> queue | scheduled | broken | gone   gone: another job holds its lock, and the task's on_conflict is skip
--       queue | held | scheduled | deferred -> canceled   a job from the inbox replaces it
--       scheduled -> queue              its time has come: a new place in its priority's row
--       started   -> queue              its lease has expired: its old place, rescues + 1
--       started   -> failed             LEASE_LOST, above max_rescues, or at once where its attempt alone was permitted to begin
--       started   -> canceled           its lease has expired and a cancel was asked
--       queue     -> held               its task's limit has no place or no token for it; or conf names its task, and the caller does not have it
--       held      -> queue              it has one again, or the caller has its task: the old place
--       queue | held -> failed          EXPIRED, BAD_ARGUMENTS: larger than a child is handed
--       queue     -> started            lease, token, attempt + 1
--       queue | scheduled | started -> broken   no text, or none of a job
-- A repeat gives the same jobs again, leases renewed, tells the same of the others, and always that there is more, since it does not look. It never chooses jobs:
-- where the note of the last claim does not have its nonce, it gives none, and the caller claims with a new one. So the jobs of a token are
-- chosen once only. Fewer than `want`, and no more to be had: the caller is
-- noted as waiting; so is one that max_running stops. One that the rate stops is told when it may ask again. A reply ends with the job that takes it over 1 MB; the others stay where they are, and `more` says so.
-- touches conf queue tenants held again places scheduled started seq job unique claim rate inbox broken failed canceled events metrics wake

local want, dispatcher, nonce = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local lease, max_rescues = tonumber(ARGV[4]), tonumber(ARGV[5])
local reservation, few, most_of = ARGV[6], tonumber(ARGV[7] or ARGV[1]), {}
local free = few                  -- `few` is counted down below
local IS_REPEAT = ARGV[8] == '1'
local has, mine = ARGV[9] or '', {}   -- `mine`: the tasks in it
for task in has:gmatch(' (%S+)') do mine[task] = true end
for i = 10, #ARGV do most_of[ARGV[i]] = true end
local LAST = ROOT .. ':claim:' .. dispatcher
local CHORES = 100                -- of each kind, at most, in one call
local PLACED = 500                -- jobs that are placed again, at most, in one call
local REPEATABLE = 60000          -- ms
local LEASE_ENDS = whole(now + lease)
local TOKEN = 't' .. word(nonce) .. ' '
local LARGEST_BODY = 2097152      -- bytes, twice what a producer may give; whatever is larger was written by another program
local LONGEST_ID = 1024           -- bytes; a longer id was written by another program
local HELD_AT_ONCE = 500          -- jobs that are held for their tasks in one call, and a page
local LARGE_REPLY = 1048576       -- bytes of bodies; a slow link must be able to bring it within the time of one reply

-- at maxmemory a script passes whose first write frees memory (also: raises here if the key is not a set, before any write)
redis.call('ZREM', QUEUE, '')

local given, known, expiring, last, bytes = {}, {}, {}, 0, 0
local leases, ids = {}, {}

-- give(id, task, args, waited): the reply's part about one job
local function give(id, task, args, waited)
  given[last + 1], given[last + 2], given[last + 3], given[last + 4] = id, task, args, waited
  last, bytes = last + 4, bytes + #args
  local n = #ids + 1
  ids[n], leases[2 * n - 1], leases[2 * n] = id, LEASE_ENDS, id
end

-- tell_known(attempts, crashes, rescues, header): more about the same job
local function tell_known(attempts, crashes, rescues, header)
  for _, value in ipairs({ #ids, attempts, crashes, rescues, header }) do known[#known + 1] = value end
  bytes = bytes + #header
end

-- give_fields(id, h): all about a job that was decoded, as it is after its claim
local function give_fields(id, h)
  local started, attempts = finite(h.started_at) or now, count(h.attempts)
  give(id, h.task, h.args, math.max(0, started - (finite(h.queued_at or h.created_at) or started)))
  tell_known(attempts, count(h.crashes), count(h.rescues), h.header or '')
  local expires = finite(h.expires_at)
  if expires then add(expiring, #ids, expires - now) end
end

-- reply(more, pause, news): also when something comes due, or a lease expires, or a pause is over
local function reply(more, pause, news)
  local due = tonumber(redis.call('ZRANGE', SCHEDULED, 0, 0, 'WITHSCORES')[2]) or math.huge
  due = math.min(due, tonumber(redis.call('ZRANGE', STARTED, 0, 0, 'WITHSCORES')[2]) or math.huge)
  if limited then due = math.min(due, tonumber(redis.call('ZRANGE', AGAIN, 0, 0, 'WITHSCORES')[2]) or math.huge) end
  if pause then due = math.min(due, now + pause) end
  return {
    more == 'few' and 2 or more and 1 or 0, due < math.huge and math.max(due - now, 0) or -1, given, known, expiring,
    (news or #told > 0) and told or nil, news,
  }
end

-- 0. the same call again: its reply was lost
local before = redis.call('GET', LAST)
local is_known = before and before:sub(1, #nonce + 1) == nonce .. ' '
if is_known or IS_REPEAT then
  if not is_known then
    before = nonce .. ' '
    -- If the first request comes late, it finds this note and takes no jobs: nobody waits for its reply
    redis.call('SET', LAST, before, 'PX', REPEATABLE)
  end
  local list, rest = before:sub(#nonce + 2):match('^([^\n]*)\n?(.*)$')
  if rest ~= '' then told = cjson.decode(rest) end
  for id in list:gmatch('[^ ]+') do
    local h = load(id)
    if h and h.token == nonce then give_fields(id, h) end
  end
  many('ZADD', STARTED, leases, 'XX')
  return reply(true)
end

-- 1. take in the inbox · 2. scheduled jobs that are due -> queue · 3. expired leases -> queue, the old place; held jobs that may go on
local conf = redis.call('HMGET', CONF, 'suspended_operator', 'suspended_file', 'max_running', 'rate', 'limits', 'fair', 'placing', 'gaps', 'metrics', 'events', 'held_tasks')
local suspended, named = conf[1] or conf[2], conf[11]
read_limits(conf[5], named)
read_events(conf[10], dispatcher)
local fair = conf[6] or conf[7]
local more = fair and place_anew(conf[6], conf[7], conf[8], PLACED)
more = take_in(CHORES) or more
more = promote(CHORES) or more
more = rescue_expired(CHORES, max_rescues) or more
if limited then more = limited.look_again(CHORES) or more end
write_endings()
-- take_back(): held -> queue, those that the caller can run, as far as they come before the last job that it wants
local function take_back()
  local last = redis.call('ZRANGE', QUEUE, want - 1, want - 1, 'WITHSCORES')[2] or '+inf'
  for task in pairs(mine) do
    let_jobs_go(task, redis.call('ZRANGEBYSCORE', HELD_BY .. '?' .. task, '-inf', last, 'WITHSCORES', 'LIMIT', 0, want), 'its task can run')
  end
end
if named and want > 0 and not suspended then take_back() end
local moved = line_up() or lined_up

-- 4. what the queue's limits let begin
local max_running = tonumber(conf[3])
local every, burst = (conf[4] or ''):match('^(%S+) (%S+)$')
local most, stop, spent = want, nil, nil
-- at_most(number, what): no more than so many begin
local function at_most(number, what)
  if number < most then most, stop = math.max(0, number), what end
end
if max_running then at_most(max_running - redis.call('ZCARD', STARTED), 'running') end
if every then
  local free
  every, burst = tonumber(every), tonumber(burst)
  free, spent = rates().tokens(RATE, every, burst)
  at_most(free, 'rate')
end
-- last: what a limit stops, another free child would not help
if max_running or every then at_most(few, 'few') end
local LIMIT = max_running and '-'   -- what the end of each job of this queue makes free

-- 5. the first of the queue -> started
local begun = {}                  -- the jobs that are given and were never claimed before: {key, text, …}
local held = {}                   -- tasks of the jobs that are not, since a limit holds them
-- few_only(task): counts a job of this task; whether it is one too many
local function few_only(task)
  if not (most_of[task] or limits and limits[task]) then return false end
  few = few - 1
  return few < 0
end

-- begin_decoded(id, text, score): true where it must stay where it was
local function begin_decoded(id, text, score)
  local h = text and #id <= LONGEST_ID and with_args(id, decode(text))
  if not h then return break_job(id) end
  local code, why
  if #h.args > LARGEST_BODY or #(h.header or '') > LARGEST_BODY then
    code, why = 'BAD_ARGUMENTS', 'its body is larger than ' .. LARGEST_BODY .. ' bytes'
  elseif h.expires_at and (tonumber(h.expires_at) or math.huge) <= now then
    code, why = 'EXPIRED', why_expired(h)
  end
  local limit, key = limits and limits[h.task], nil
  if limit and not code then
    local good
    good, key = pcall(limited.key_of_body, h.task, h.args)
    if not good then code, why = 'BAD_ARGUMENTS', 'its task has a limit, and ' .. key end
  end
  if code then
    return end_job(id, h, 'failed', code, why, failure_ttl(h), score, h.task, h.attempts or false, count(h.rescues), '', h.queued_at or h.created_at, now,
      h.header)
  end
  if limit and limited.is_full(limited.room_of(key, limit)) then
    held[#held + 1] = h.task
    return limited.hold(id, h, key, score)
  end
  if few_only(h.task) then return true end
  if h.unique and h.unique:find('^started,') then free_lock(id, h) end
  -- the limit that had held it is another one now: the turn of that one is passed on
  if h.limit and h.limit ~= key then withdraw(id, h) end
  h.limit = limit and limited.take_place(id, key, limit, nonce) or LIMIT
  h.score, h.started_at, h.attempts, h.token, h.progress = score, now, count(h.attempts) + 1, nonce, nil
  save(id, h)
  give_fields(id, h)
  if events then events.job('claimed', id, h) end
end

-- fresh(state): how a job begins that was never claimed before. Its state says when it was made and, if it does, when it expires. Jobs that were
-- made together often have the same state, so it is worked out once. false: another job
local FRESH = {}
local function fresh(state)
  local created, task, header, large, rest = state:match('^c(%d+) l([1-9]%d*),(%d+),?(%d*)(.*)$')
  local expires = created and rest:match('^ x(%d+)$')
  -- none that was made later than now: the clock was put back
  FRESH[state] = created and tonumber(created) <= now and (rest == '' or expires and created + expires > now) and {
    held = TOKEN .. state .. ' b' .. now - created .. ' n1 ' .. (LIMIT and 'p' .. LIMIT .. ' ' or '') .. 's', waited = now - created, expires = expires and created + expires - now,
    header_at = task + 2, args_at = task + header + 3, has_header = header ~= '0', large = large ~= '' and large,
  }
  return FRESH[state]
end

-- begin(id, text, score): as begin_decoded; the hot path
local function begin(id, text, score)
  local at = text and text:find('\n', 1, true)
  local state = at and text:sub(1, at - 1)
  local how = state and FRESH[state]
  if how == nil and state then how = fresh(state) end
  if not how or #text > LARGEST_BODY or #id > LONGEST_ID or id:find('\n', 1, true) or score:find('%D') then return begin_decoded(id, text, score) end
  local header_at, args_at = at + how.header_at, at + how.args_at
  local task, args = text:sub(at + 1, header_at - 2), how.large and large_args(id, how.large) or text:sub(args_at)
  if text:byte(header_at - 1) ~= 10 or text:byte(args_at - 1) ~= 10 or #args == 0 or #args > LARGEST_BODY then return begin_decoded(id, text, score) end
  if limits and limits[task] then return begin_decoded(id, text, score) end
  if few_only(task) then return true end
  add(begun, JOB .. id, how.held .. score .. text:sub(at))
  give(id, task, args, how.waited)
  if events then events.tell('claimed', id, task, how.has_header and events.of_header(text:sub(header_at, args_at - 2))) end
  if how.has_header then tell_known(1, 0, 0, text:sub(header_at, args_at - 2)) end
  if how.expires then add(expiring, #ids, how.expires) end
end

local strange, apart, number_apart = {}, {}, 0   -- task -> whether the caller does not have it, and conf names it · task -> {score, id, …} · how many
local function is_strange(task)
  if strange[task] == nil then strange[task] = is_named(named, task) and not mine[word(task)] end
  return strange[task]
end
-- may_be_held(id, state): not what has expired, or cannot be read: its end comes when it is to begin
local function may_be_held(id, state)
  if not state:find(' [px]') then return true end
  local h = load(id)
  if not h or h.expires_at and (finite(h.expires_at) or math.huge) <= now then return false end
  expires_held(id, h)
  if h.limit then
    withdraw(id, h)
    save(id, h)
  end
  return true
end
-- set_apart(popped, texts): the jobs whose tasks the caller does not have are to be held; the others, and their texts
local function set_apart(popped, texts)
  local others, texts_of_others = {}, {}
  for i = 1, #popped, 2 do
    local id, text = popped[i], texts[(i + 1) / 2]
    local state, task = (text or ''):match('^([^\n]*)\n([^\n]*)\n')
    if task and is_strange(task) and may_be_held(id, state) then
      apart[task] = apart[task] or {}
      add(apart[task], popped[i + 1], id)
      number_apart = number_apart + 1
      if events then events.tell('held', id, task) end
    else
      add(others, id, popped[i + 1])
      texts_of_others[#texts_of_others + 1] = text
    end
  end
  return others, texts_of_others
end
-- begin_page(popped, texts): claims what was popped, {id, score, …}, until there is enough; the rest goes back. True where one stays for its task
local function begin_page(popped, texts)
  local back, stays = {}, nil
  for i = 1, #popped, 2 do
    local full = stays or bytes >= LARGE_REPLY or #ids >= most
    if not full then
      stays = begin(popped[i], texts[(i + 1) / 2], popped[i + 1])
      full = stays
    end
    if full then add(back, popped[i + 1], popped[i]) end
  end
  many('ZADD', QUEUE, back)
  if fair then (turns or placed_by).reach(popped, #popped - #back) end
  return stays
end
local looked, stays, page = 0, nil, most
while not suspended and not stays and #ids < most and looked < most + CHORES and number_apart < HELD_AT_ONCE and bytes < LARGE_REPLY do
  local popped = redis.call('ZPOPMIN', QUEUE, math.min(page, PAGE))
  if #popped == 0 then break end
  local texts = texts_of(popped, 1, #popped)
  if named then popped, texts = set_apart(popped, texts) end
  stays = begin_page(popped, texts)
  looked = looked + #popped / 2
  page = #popped == 0 and PAGE or most - #ids
end
local is_news                     -- jobs are held that others may have to be told of
for task, jobs in pairs(apart) do is_news = hold_jobs(task, jobs) or is_news end
-- Only now: an error above would leave jobs whose texts say that they have begun, and that are in no set. Each would count a rescue
write(begun)
if #ids > 0 then many('ZADD', STARTED, leases) end
if placed_by then placed_by.write() end
moved = line_up() or moved
if every and #ids > 0 then
  spent = spent + #ids * every
  rates().spend(RATE, spent)
end
write_endings()
if conf[9] and (#told > 0 or #held > 0) then tallies().chores(told, held) end
for _, reason in ipairs(put_aside) do tell('', 'BROKEN', reason:sub(1, 255), '', 0, 0) end
if #ids > 0 or #told > 0 then
  local others = #told > 0 and '\n' .. cjson.encode(told) or ''
  redis.call('SET', LAST, nonce .. ' ' .. table.concat(ids, ' ') .. others, 'PX', REPEATABLE)
end

if events then events.write() end

-- 6. who waits, and who is to be woken
if is_news then wake() end
local left = not suspended and redis.call('ZCARD', QUEUE) > 0
if named and not suspended then
  for task in pairs(mine) do left = left or redis.call('EXISTS', HELD_BY .. '?' .. task) == 1 end
end
if fair and not suspended and not left then redis.call('DEL', TENANTS) end
local stopped = left and #ids >= most and stop
if #ids < want and not suspended and (not left or stopped == 'running') then
  -- of a queue with a limit, its own or a task's, or with tenants, nothing but a claim may begin a job
  redis.call('SET', WAKE, reservation ~= '' and #ids < free and not (max_running or every or limits or fair or named) and reservation .. ' ' .. whole(now) or '1', 'PX', WAITS)
elseif moved and left then
  wake()
end
-- what it knows of conf `held_tasks` is of another version
local news = ARGV[9] and has:match('^%d*') ~= (named or ''):match('^%d*') and (named or '') or nil
return reply(stays and 'few' or stopped == 'few' and 'few' or more or left and not stopped or news and named, stopped == 'rate' and rates().until_next(spent, every, burst), news)
