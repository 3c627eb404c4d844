-- include: now queue score wake broken status ends
--
-- inspect(queue, repair, what, ids): what is wrong with these jobs, each as it is at this moment; with `repair` it is put right at once.
--
-- KEYS  1 ns:{q}
-- ARGV  1 repair 0|1
--       2 keys: a scan has found their keys · strays: the same, but look only at those that no set holds
--         members: a set holds them; look only at those that have no key · then ids, none twice
-- reply {id, kind, detail, status that is right, …}
--       no-job      its key is missing, is no hash, or lacks task or args; detail: the sets that hold it
--       wrong-set   no set holds it, or several do; detail: these sets
--       fields      it is in one set, and these fields of its hash do not agree with that
--
-- moves (none), or two or more -> the one that the hash speaks for; `started` is then an expired lease, which the next claim rescues
--       any -> broken      no-job
-- touches queue scheduled started finished failed canceled deferred seq job broken conf wake

local KEPT = 86400000             -- ms, 1 day: how long an ended job was to be kept is not in its hash
local ENDED = { finished = true, failed = true, canceled = true }
-- to come back with: from a delay, from a lost run, by requeue
local NEEDS_SCORE = { scheduled = true, started = true, failed = true, canceled = true }

-- find(ids): the jobs, each with the sets that hold it and its score in them
local function find(ids)
  local jobs = {}
  for i, id in ipairs(ids) do jobs[i] = { id = id, sets = {}, place = {} } end
  for _, status in ipairs(STATUSES) do
    local places = #ids > 0 and redis.pcall('ZMSCORE', set_of(status), unpack(ids)) or {}
    -- a key of another type holds no job
    for i, job in ipairs(places.err and {} or jobs) do
      if places[i] then
        job.sets[#job.sets + 1], job.place[status] = status, places[i]
      end
    end
  end
  return jobs
end

-- read(job): adds what its hash has; what has no task then is no job
local function read(job)
  local key = JOB .. job.id
  local h = redis.pcall('HMGET', key, 'task', 'token', 'score', 'ended_at', 'last_outcome')
  job.exists = redis.call('EXISTS', key) == 1
  if h.err or not h[1] or redis.call('HEXISTS', key, 'args') == 0 then return end
  job.task, job.token, job.score, job.ended_at, job.last_outcome = h[1], h[2] or '', finite(h[3]), h[4], h[5]
end

-- status_by_hash(job): where it belongs. A scheduled job leaves no trace in its hash; an error may be of an earlier attempt, a result is not.
local function status_by_hash(job)
  if not job.ended_at then return job.token ~= '' and 'started' or 'queued' end
  if redis.call('HEXISTS', JOB .. job.id, 'result') == 1 then return 'finished' end
  if job.last_outcome == 'canceled' then return 'canceled' end
  return redis.call('HEXISTS', JOB .. job.id, 'error') == 1 and 'failed' or 'finished'
end

-- right_status(job): of the sets that hold it the one that its hash speaks for; a scheduled job's early run could not be undone
local function right_status(job)
  local meant = status_by_hash(job)
  if #job.sets == 0 or meant ~= 'queued' and job.place[meant] then return meant end
  local order = { 'scheduled', 'queued', 'deferred', 'started', 'finished', 'failed', 'canceled' }
  if job.ended_at then order = { 'finished', 'failed', 'canceled', 'scheduled', 'queued', 'deferred', 'started' } end
  for _, status in ipairs(order) do
    if job.place[status] then return status end
  end
end

-- judge(job): kind, detail and the status that is right; nil where nothing is wrong
local function judge(job)
  local sets, names = table.concat(job.sets, ' '), {}
  if not job.task then
    if job.exists or sets ~= '' then return 'no-job', sets, '' end
    return nil
  end
  if #job.sets ~= 1 then return 'wrong-set', sets, right_status(job) end
  if (job.token ~= '') ~= (sets == 'started') then names[#names + 1] = 'token' end
  if (job.ended_at ~= false) ~= (ENDED[sets] == true) then names[#names + 1] = 'ended_at' end
  if NEEDS_SCORE[sets] and not job.score then names[#names + 1] = 'score' end
  if #names > 0 then return 'fields', table.concat(names, ' '), sets end
end

-- new_score(job): behind the others of its priority, or else of its task's
local function new_score(job)
  local priority = (redis.call('HGET', CONF, 'task:' .. job.task) or ''):match('^(%d+) ')
  return later(job.score or (255 - (tonumber(priority) or 1)) * BAND, redis.call('INCR', SEQ))
end

-- mend_hash(job, status): makes its fields agree with the status
local function mend_hash(job, status)
  local key = JOB .. job.id
  if NEEDS_SCORE[status] and not job.score then redis.call('HSET', key, 'score', job.place.queued or new_score(job)) end
  if not ENDED[status] then
    redis.call('HDEL', key, 'ended_at')
  elseif not job.ended_at then
    redis.call('HSET', key, 'ended_at', now)
  end
  if status ~= 'started' then
    redis.call('HSET', key, 'token', '')
  elseif job.token == '' then
    -- nobody can settle it: an attempt that nobody holds, whose lease is over; if there was a permit, it may have begun
    redis.call('HSET', key, 'token', redis.call('HGET', key, 'permit') or 'lost')
    redis.call('ZADD', STARTED, now, job.id)
  end
end

-- put(job, status): (none) -> status
local function put(job, status)
  if ENDED[status] then
    redis.call('ZADD', set_of(status), keep_until(status == 'failed' and FAILED_KEPT or KEPT), job.id)
  else
    redis.call('ZADD', set_of(status), status == 'queued' and new_score(job) or now, job.id)
  end
end

local function mend(job, status)
  -- at maxmemory a script passes whose first write frees memory
  redis.call('ZREM', ROOT .. ':none', '')
  if job.task then
    mend_hash(job, status)
    if #job.sets == 0 then put(job, status) end
  else
    break_job(job.id)
  end
  for _, set in ipairs(job.sets) do
    if set ~= status then redis.call('ZREM', set_of(set), job.id) end
  end
end

local repair, what, ids = ARGV[1] == '1', ARGV[2], {}
for i = 3, #ARGV do
  if what ~= 'members' or redis.call('EXISTS', JOB .. ARGV[i]) == 0 then ids[#ids + 1] = ARGV[i] end
end
local replies = {}
for _, job in ipairs(find(ids)) do
  if what ~= 'strays' or #job.sets == 0 then
    read(job)
    local kind, detail, status = judge(job)
    if kind then
      for _, word in ipairs({ job.id, kind, detail, status }) do replies[#replies + 1] = word end
      if repair then mend(job, status) end
    end
  end
end
if repair and #replies > 0 then wake() end
return replies
