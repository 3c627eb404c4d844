-- include: now queue score wake text claim_message claim_on_enqueue single batches job events ready argument_values
-- include: turns store room
--
-- enqueue(queue, jobs, confirmed): stores new jobs, by id; a repeat of the same job changes nothing.
--
-- KEYS  1 ns:{q}
-- ARGV  per job: id, task, args, priority, n, then n pairs of
--         at (epoch ms) · delay (ms from now, or from `at` if that precedes it and is in the future) · expires (ms from
--         now) · header (raw JSON) · follow (that field of the job)
--         unique (as in shared/unique.lua), which must be the first
--       after the jobs, if a WAIT or WAITAOF follows: 1
-- reply a digit per job: 0 stored · 1 the same job was there · 2 another job has the id · 3 the queue is full
--       4 another job holds the lock · 5 the same, and that is an error · 6 another job of the call got 5
--       then, for each 4 and 5, a blank and the id of the job that holds the lock
--
-- moves      -> queue       at once, behind its priority, or at its tenant's next turn
--            -> started     one small job, claimed for a waiting dispatcher: the message that wakes it has the job
--            -> scheduled   until it is due
--       queue | held | scheduled | deferred -> canceled   a new job with the same lock replaces it
-- A call with unique jobs runs `enqueue_unique`, one with jobs that wait for others `enqueue_after`. These are this
-- file with more includes, so that other calls do not pay for them. Only there are locks used.
-- A call stores all its new jobs, or none: if max_length is exceeded, or if a job gets 5. Jobs that wait for others do
-- not count towards max_length.
-- touches conf queue tenants held scheduled started canceled seq job unique events wake given

-- 1. look: every error must precede the first write
local left = room()

local function any_exists(keys)
  for first = 1, #keys, PAGE do
    if redis.call('EXISTS', unpack(keys, first, math.min(first + PAGE - 1, #keys))) > 0 then return true end
  end
  return false
end
-- is_same(id, task, args): whether the existing job has the same body
local function is_same(id, task, args)
  local there = load_job(id)
  return there and there.task == task and there.args == args
end

local replies, to_store, positions, seen, keys = {}, {}, {}, {}, {}
local handed = ARGV.handed        -- what shared/handed.lua does for rows of an outbox; nil: these are none
-- of unique jobs: position in ARGV -> lock decision · ids of the existing jobs · whether one gets 5
local decisions, existing, refused = {}, {}, false
local more = 0                    -- new jobs that count towards max_length, less those that are replaced
-- waits(first): whether the job at that position of ARGV waits for others: `after` is its last option
local function waits(first)
  local n = tonumber(ARGV[first + 4])
  return n > 0 and ARGV[first + 3 + 2 * n] == 'after'
end
local at, n = 1, 0
while ARGV[at + 1] do
  n = n + 1
  keys[n] = JOB .. ARGV[at]
  at = at + 5 + 2 * ARGV[at + 4]
end
local all_new = not any_exists(keys)
local locker                      -- what make_locker() has made
-- lock_reply(first, id): the reply if another job holds the lock of the job at that position of ARGV; else nil
local function lock_reply(first, id)
  if ARGV[first + 5] ~= 'unique' or ARGV[first + 4] == '0' then return nil end
  locker = locker or make_locker()
  local decision, other, is_error = locker.decide_lock(id, ARGV[first + 1], ARGV[first + 6])
  if not decision then
    existing[#existing + 1], refused = ' ' .. other, refused or is_error
    return is_error and '5' or '4'
  end
  if decision.makes_room and (decision.other or not waits(first)) then more = more - 1 end
  decisions[first], locker.decisions_by_lock[decision.key] = decision, decision
end
local function answer()
  if handed then handed.mark(replies) end
  return table.concat(replies) .. table.concat(existing)
end
at, n = 1, 0
while ARGV[at + 1] do
  n = n + 1
  local id = ARGV[at]
  local earlier = seen[id]
  if handed and handed.has(id) then
    replies[n] = '1'
  elseif earlier then
    replies[n] = (ARGV[earlier + 1] == ARGV[at + 1] and ARGV[earlier + 2] == ARGV[at + 2]) and '1' or '2'
  elseif not all_new and redis.call('EXISTS', keys[n]) == 1 then
    replies[n] = is_same(id, ARGV[at + 1], ARGV[at + 2]) and '1' or '2'
  else
    replies[n] = lock_reply(at, id) or '0'
    if replies[n] == '0' then
      to_store[#to_store + 1], positions[#positions + 1], seen[id] = at, n, at
      if not waits(at) then more = more + 1 end
    end
  end
  at = at + 5 + 2 * ARGV[at + 4]
end

if #to_store == 0 then
  -- WAIT confirms only what its own connection has written, and another connection may have stored the job
  local there = replies[1] == '1' and keys[1] or replies[1] == '4' and JOB .. existing[1]:sub(2)
  local text = ARGV[at] and there and redis.call('GET', there)
  if text then
    redis.call('ZREM', QUEUE, '')  -- at maxmemory, too
    redis.call('SET', there, text)
  end
  return answer()
end
if refused or more > math.max(left, 0) then
  for i = 1, #positions do replies[positions[i]] = refused and '6' or '3' end
  return answer()
end

-- 2. write
-- options(first, n): the options of a job -> due, header, expires_at, follow, after
local function options(first, n)
  local due, header, expires_at, follow, after = 0, '', nil, nil, nil
  for i = first, first + 2 * n - 1, 2 do
    local name, value = ARGV[i], ARGV[i + 1]
    if name == 'delay' then
      due = math.max(due, now) + value
    elseif name == 'at' then
      due = tonumber(value)
    elseif name == 'expires' then
      expires_at = now + value
    elseif name == 'header' then
      header = value
    elseif name == 'follow' then
      follow = value
    elseif name == 'after' then
      after = value
    end
  end
  return due, header, expires_at, follow, after
end

local waiting                     -- the value of WAKE; false: nobody waits; nil: not read
-- may_be_reserved(args, due, header, expires_at): whether the job's turn is all that a claim would check
local function may_be_reserved(args, due, header, expires_at)
  return n == 1 and due <= now and not expires_at and #args + #header <= LARGEST_GIVEN
end
-- claim_if_reserved(id, task, args, score, header): returns whether it was claimed for a waiting dispatcher
local function claim_if_reserved(id, task, args, score, header)
  waiting = read_waiting()
  local token, left = open_reservation(waiting)
  if not token then return false end
  claim_on_enqueue(token, left, id, task, args, score, header)
  if events then
    events.record_enqueued(id, task, header, 0, args)
    events.record('claimed', id, task, events.header_words(header))
  end
  return true
end

local has_deferred = false
local seq = redis.call('INCRBY', SEQ, #to_store) - #to_store
for i, first in ipairs(to_store) do
  local due, header, expires_at, follow, after = 0, '', nil, nil, nil
  if ARGV[first + 4] ~= '0' then due, header, expires_at, follow, after = options(first + 5, ARGV[first + 4]) end
  local id, task, args, score = ARGV[first], ARGV[first + 1], ARGV[first + 2], (255 - ARGV[first + 3]) * BAND + seq + i
  local decision = decisions[first]
  if after and not (decision and decision.replaced_by) then
    due, follow, has_deferred = defer(id, after, due, follow, expires_at)
    -- `max_wait` must not make it ready before its parents have ended
    if decision then decision.max_wait = 0 end
  end
  if decision then
    locker.store(decision, task, args, score, due, header, expires_at, follow)
  elseif not follow and may_be_reserved(args, due, header, expires_at)
    and claim_if_reserved(id, task, args, score, header) then
    if events then events.write() end
    return answer()
  else
    store(id, task, args, score, due, header, expires_at, nil, follow)
  end
end
if locker then write_endings() end
if write_ready() and waiting ~= false then wake() end
if has_deferred then write_deferred() end
if events then events.write() end
return answer()
