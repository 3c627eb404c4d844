-- include: now queue score wake text given_job give single many job events line_up by turns store room
--
-- enqueue(queue, jobs, confirmed): stores new jobs, by id; a repeat of the same job changes nothing.
--
-- KEYS  1 ns:{q}
-- ARGV  per job: id, task, args, priority, n, then n pairs of
--         at (epoch ms) · delay (ms from now, or from `at` if that stands before it and is to come) · expires (ms from now) · header (raw JSON)
--         follow (that field of the job)
--         unique (as shared/unique.lua says), the first of them
--       behind the jobs, where a WAIT or WAITAOF follows: 1
-- reply a digit per job: 0 stored · 1 the same job was there · 2 the id is another job's · 3 the queue is full · 4 another job holds the lock
--       5 the same, and that is an error · 6 as another job of the call got 5; then, for each 4 and 5, a blank and the id of that job
--
-- moves      -> queue       at once, behind its priority, or for its tenant's turn
--            -> started     one small job, claimed for a dispatcher that waits: the message that wakes that has the job
--            -> scheduled   while its time is to come
--       queue | held | scheduled | deferred -> canceled   a new job of the same lock replaces it
-- Jobs that are unique come through `enqueue_unique`, which has the files that they need in front of this one: a call without them does not
-- pay for these. What is said here of locks is about such jobs. Those that wait for others come through `enqueue_after`.
-- A call stores all its new jobs, or none: at max_length, or where one gets 5. Jobs that wait for others do not count towards it.
-- touches conf queue tenants held scheduled started canceled seq job unique events wake given

-- 1. look: every error must come before the first write
local left = room()

-- any_there(keys): whether any of them exists
local function any_there(keys)
  for first = 1, #keys, PAGE do
    if redis.call('EXISTS', unpack(keys, first, math.min(first + PAGE - 1, #keys))) > 0 then return true end
  end
  return false
end
-- same(id, task, args): whether the job that is there was made of the same body.
local function same(id, task, args)
  local there = load(id)
  return there and there.task == task and there.args == args
end

local replies, fresh, places, seen, keys = {}, {}, {}, {}, {}
-- of unique jobs: position in ARGV -> the way to its lock · ids of those that are there · whether one is refused
local ways, existing, refused = {}, {}, false
local more = 0                    -- jobs that count towards max_length: those that come, less those that are replaced
-- waits(first): whether the job that stands there in ARGV waits for others: `after` is its last option. Such jobs do not count
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
local all_new = not any_there(keys)
local unique                      -- what unique_jobs() has made
-- locked(first, id): whether another job holds the lock of the job that stands there in ARGV; its reply then
local function locked(first, id)
  if ARGV[first + 5] ~= 'unique' or ARGV[first + 4] == '0' then return nil end
  unique = unique or unique_jobs()
  local way, other, is_error = unique.look_at_lock(id, ARGV[first + 1], ARGV[first + 6])
  if not way then
    existing[#existing + 1], refused = ' ' .. other, refused or is_error
    return is_error and '5' or '4'
  end
  if way.makes_room and (way.other or not waits(first)) then more = more - 1 end
  ways[first], unique.locking[way.key] = way, way
end
-- answer(): the reply
local function answer() return table.concat(replies) .. table.concat(existing) end
at, n = 1, 0
while ARGV[at + 1] do
  n = n + 1
  local id = ARGV[at]
  local twin = seen[id]
  if twin then
    replies[n] = (ARGV[twin + 1] == ARGV[at + 1] and ARGV[twin + 2] == ARGV[at + 2]) and '1' or '2'
  elseif not all_new and redis.call('EXISTS', keys[n]) == 1 then
    replies[n] = same(id, ARGV[at + 1], ARGV[at + 2]) and '1' or '2'
  else
    replies[n] = locked(at, id) or '0'
    if replies[n] == '0' then
      fresh[#fresh + 1], places[#places + 1], seen[id] = at, n, at
      if not waits(at) then more = more + 1 end
    end
  end
  at = at + 5 + 2 * ARGV[at + 4]
end

if #fresh == 0 then
  -- What follows confirms only what its own connection has written, and another one may have stored the job.
  local there = replies[1] == '1' and keys[1] or replies[1] == '4' and JOB .. existing[1]:sub(2)
  local text = ARGV[at] and there and redis.call('GET', there)
  if text then
    redis.call('ZREM', QUEUE, '')  -- at maxmemory, too
    redis.call('SET', there, text)
  end
  return answer()
end
if refused or more > math.max(left, 0) then
  for i = 1, #places do replies[places[i]] = refused and '6' or '3' end
  return answer()
end

-- 2. write
-- options(first, n): what a job has beside id, task, args and priority -> due, header, expires_at, follow, after
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

local waiting                     -- what WAKE has said; false: nothing; nil: it was not asked
-- may_be_given(args, due, header, expires_at): whether claim has nothing to check of this job but its turn
local function may_be_given(args, due, header, expires_at)
  return n == 1 and due <= now and not expires_at and #args + #header <= LARGEST_GIVEN
end
-- given(id, task, args, score, header): whether it was claimed for a dispatcher that waits
local function given(id, task, args, score, header)
  waiting = who_waits()
  local token, left = taker(waiting)
  if not token then return false end
  give(token, left, id, task, args, score, header)
  if events then
    events.enqueued(id, task, header, 0, args)
    events.tell('claimed', id, task, events.of_header(header))
  end
  return true
end

local has_deferred = false
local seq = redis.call('INCRBY', SEQ, #fresh) - #fresh
for i, first in ipairs(fresh) do
  local due, header, expires_at, follow, after = 0, '', nil, nil, nil
  if ARGV[first + 4] ~= '0' then due, header, expires_at, follow, after = options(first + 5, ARGV[first + 4]) end
  local id, task, args, score = ARGV[first], ARGV[first + 1], ARGV[first + 2], (255 - ARGV[first + 3]) * BAND + seq + i
  local way = ways[first]
  if after and not (way and way.replaced_by) then
    due, follow, has_deferred = defer(id, after, due, follow, expires_at)
    -- `max_wait` must not bring it into the row before its parents have ended
    if way then way.max_wait = 0 end
  end
  if way then
    unique.store(way, task, args, score, due, header, expires_at, follow)
  elseif not follow and may_be_given(args, due, header, expires_at) and given(id, task, args, score, header) then
    if events then events.write() end
    return answer()
  else
    store(id, task, args, score, due, header, expires_at, nil, follow)
  end
end
if unique then write_endings() end
if line_up() then
  if waiting ~= false then wake() end
end
if has_deferred then end_defer() end
if events then events.write() end
return answer()
