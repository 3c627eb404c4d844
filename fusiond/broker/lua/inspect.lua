-- include: now queue batches score text job events ready places wake broken status locks follow ticks endings
-- include: held_tasks
--
-- inspect(queue, repair, what, who, ids): what is wrong with these jobs at this moment; with `repair` it is repaired at
-- once
--
-- KEYS  1 ns:{q}
-- ARGV  1 repair 0|1
--       2 keys: a scan has found their keys · strays: the same, but check only those that are in no set
--         members: they are in a set; check only those that have no key
--       3 who asks, or empty · then ids, none twice
-- reply {id, kind, detail, right status, …}
--       no-job      its key is missing, or is not a job; detail: the sets that have it
--       wrong-set   no set has it, or several have; detail: these sets
--       fields      it is in one set, and these fields of its text do not agree with that
--
-- moves (none), or two or more -> the set that its text indicates; `started` then has an expired lease, and the next
-- claim rescues the job
--       any -> broken      no-job
-- touches queue ticks held again places scheduled started finished failed canceled deferred seq job unique broken
--         conf events wake

local KEPT = 86400000             -- ms, 1 day: the text of a finished job does not say how long to keep it
local ENDED = { finished = true, failed = true, canceled = true }
-- these need the score when they are queued again: after a delay, a lost run, a requeue
local NEEDS_SCORE = { scheduled = true, held = true, started = true, failed = true, canceled = true }

-- find(ids): the jobs, each with its sets and its score in each
local function find(ids)
  local jobs = {}
  for i, id in ipairs(ids) do jobs[i] = { id = id, sets = {}, place = {} } end
  for _, status in ipairs(STATUSES) do
    local places = #ids > 0 and redis.call('ZMSCORE', set_of(status), unpack(ids)) or {}
    for i, job in ipairs(jobs) do
      if places[i] then job.sets[#job.sets + 1], job.place[status] = status, places[i] end
    end
  end
  return jobs
end

-- read(job): adds its fields; without fields it is not a job
local function read(job)
  job.exists = redis.call('EXISTS', JOB .. job.id, JOB .. job.id .. ARGS) > 0
  job.h = load_job(job.id)
  job.score = job.h and finite(job.h.score)
end

-- status_by_fields(h): its status. A scheduled job has no field for that; an error may be of an earlier attempt, a
-- result is not
local function status_by_fields(h)
  if not h.ended_at then return h.token and 'started' or 'queued' end
  if h.result then return 'finished' end
  if h.last_outcome == 'canceled' then return 'canceled' end
  return h.error and 'failed' or 'finished'
end

-- right_status(job): the set of its sets that its fields indicate; scheduled, if possible: an early run could not be
-- undone
local function right_status(job)
  local meant = status_by_fields(job.h)
  if #job.sets == 0 or meant ~= 'queued' and job.place[meant] then return meant end
  local order = job.h.ended_at
    and { 'finished', 'failed', 'canceled', 'scheduled', 'queued', 'held', 'deferred', 'started' }
    or { 'scheduled', 'queued', 'held', 'deferred', 'started', 'finished', 'failed', 'canceled' }
  for _, status in ipairs(order) do
    if job.place[status] then return status end
  end
end

-- agrees_with_limit(job, status): whether the limit, or the task, that holds it has it as held, or the limit of its
-- place knows it
local function agrees_with_limit(job, status)
  local limit = job.h.limit
  if status == 'held' then
    return redis.call('ZSCORE', HELD_BY .. (limit or '?' .. job.h.task), job.id)
      and (limit or is_listed(redis.call('HGET', CONF, 'held_tasks'), job.h.task))
  end
  return status ~= 'started' or not limit or limit == '-' or redis.call('HGET', PLACES .. limit, job.id) == job.h.token
end

-- judge(job): kind, detail and right status; nil: nothing is wrong
local function judge(job)
  local sets, names = table.concat(job.sets, ' '), {}
  if not job.h then
    if job.exists or sets ~= '' then return 'no-job', sets, '' end
    return nil
  end
  if #job.sets ~= 1 then return 'wrong-set', sets, right_status(job) end
  if (job.h.token ~= nil) ~= (sets == 'started') then names[#names + 1] = 'token' end
  if (job.h.ended_at ~= nil) ~= (ENDED[sets] == true) then names[#names + 1] = 'ended_at' end
  local may_lack = sets == 'held' and not job.h.limit
  if NEEDS_SCORE[sets] and not job.score and not may_lack then names[#names + 1] = 'score' end
  if not agrees_with_limit(job, sets) then names[#names + 1] = 'limit' end
  if #names > 0 then return 'fields', table.concat(names, ' '), sets end
end

-- new_score(job): behind the others of its priority, or of its task's priority
local function new_score(job)
  local priority = (redis.call('HGET', CONF, 'task:' .. job.h.task) or ''):match('^(%d+) ')
  return with_sequence(job.score or (255 - (tonumber(priority) or 1)) * BAND, redis.call('INCR', SEQ))
end

local function repair_fields(job, status)
  local h = job.h
  if NEEDS_SCORE[status] and not job.score then h.score = job.place.queued or job.place.held or new_score(job) end
  if status == 'held' then
    -- a key without a limit: the next claim releases the job, and checks its limit again
    if not h.limit then redis.call('ZREM', HELD_BY .. '?' .. h.task, job.id) end
    redis.call('HSETNX', CONF, 'limits', '{}')
    h.limit = h.limit or h.task .. ' lost='
    redis.call('ZADD', HELD_BY .. h.limit, h.score, job.id)
    redis.call('ZADD', AGAIN, 0, 'k' .. h.limit)
  elseif status == 'started' and h.limit and h.limit ~= '-' then
    redis.call('HSET', PLACES .. h.limit, job.id, h.token or h.permit or 'lost')
  elseif status ~= 'queued' then
    h.limit = nil
  end
  h.ended_at = ENDED[status] and (h.ended_at or now) or nil
  if status ~= 'started' then
    h.token = nil
  elseif not h.token then
    -- nobody can settle this attempt, and its lease is over; with a permit it may have begun
    h.token = h.permit or 'lost'
    redis.call('ZADD', STARTED, now, job.id)
  end
  save_job(job.id, h)
end

-- put(job, status): (none) -> status
local function put(job, status)
  if ENDED[status] then
    redis.call('ZADD', set_of(status), keep_until(status == 'finished' and KEPT or failure_ttl(job.h)), job.id)
  else
    redis.call('ZADD', set_of(status), status == 'queued' and new_score(job) or now, job.id)
  end
end

local SAID = { ['wrong-set'] = 'sets that had it: %s', fields = 'these did not agree with its set: %s' }
local function repair_job(job, status)
  -- at maxmemory Redis runs a script whose first write frees memory
  redis.call('ZREM', ROOT .. ':none', '')
  if job.h then
    repair_fields(job, status)
    if ENDED[status] and job.h.unique then free_lock(job.id, job.h) end
    if #job.sets == 0 then put(job, status) end
  else
    break_job(job.id)
  end
  for _, set in ipairs(job.sets) do
    if set ~= status then redis.call('ZREM', set_of(set), job.id) end
  end
end

local repair, what, ids = ARGV[1] == '1', ARGV[2], {}
for i = 4, #ARGV do
  if what ~= 'members' or redis.call('EXISTS', JOB .. ARGV[i]) == 0 then ids[#ids + 1] = ARGV[i] end
end
local replies = {}
if repair then read_events(redis.call('HGET', CONF, 'events'), as_operator(ARGV[3])) end
for _, job in ipairs(find(ids)) do
  if what ~= 'strays' or #job.sets == 0 then
    read(job)
    local kind, detail, status = judge(job)
    if kind then
      for _, value in ipairs({ job.id, kind, detail, status }) do replies[#replies + 1] = value end
      if repair then
        repair_job(job, status)
        local words = events and job.h and ' s' .. status .. ' m' .. escape(SAID[kind]:format(detail))
        if words then events.record_job('repaired', job.id, job.h, words) end
      end
    end
  end
end
if events then events.write() end
if repair and #replies > 0 then wake() end
return replies
