-- include: now queue score wake broken status ends home finding
--
-- mend(queue, ids): looks at these jobs again and mends what is wrong now; what has changed meanwhile is left alone.
--
-- KEYS  1 ns:{q}
-- ARGV  ids
-- reply {id, kind, detail, status that is right, mended 0|1, …}: what was wrong; nothing of a job with which nothing was
--
-- moves (none) -> queue | started | finished | failed | canceled   `started` is an expired lease, which the next claim rescues
--       two or more -> the one that the hash speaks for
--       any -> broken      no hash, or one that is no job's
-- touches queue scheduled started finished failed canceled deferred seq job broken conf wake

local ROUNDS = 4                  -- what one remedy brings to light another mends
local GRACE = 60000               -- ms: a dispatcher that holds the job renews within

redis.call('ZREM', QUEUE, '')

-- leave(job, but): takes the job out of each set that holds it, `but` one
local function leave(job, but)
  for _, status in ipairs(job.sets) do
    if status ~= but then redis.call('ZREM', set_of(status), job.id) end
  end
end
local function set(job, ...)
  redis.call('HSET', JOB .. job.id, ...)
end
local function broken_job(job)
  break_job(job.id)
  leave(job)
end

local function queue_up(job)
  bring_home(job.id, 'queued', job.task, place_of(job.score))
end

local remedies = {
  ['no-body'] = broken_job,
  ['no-job'] = broken_job,
  ['no-set'] = function(job, _, status)
    if status == 'queued' then queue_up(job) else bring_home(job.id, status) end
  end,
  ['many-sets'] = function(job, _, status)
    -- what it would lose with its place in the queue is its priority
    local place = job.place.queued
    if place and status ~= 'queued' and not job.score then set(job, 'score', place) end
    leave(job, status)
  end,
  ['number'] = function(job, names)
    for name in names:gmatch('%S+') do
      if name == 'created_at' then set(job, name, now) else redis.call('HDEL', JOB .. job.id, name) end
    end
  end,
  ['score'] = function(job, _, status)
    if HAS_SCORE[status] then set(job, 'score', new_score(job.task)) else redis.call('HDEL', JOB .. job.id, 'score') end
  end,
  ['place'] = queue_up,
  ['due'] = function(job) redis.call('ZADD', SCHEDULED, now, job.id) end,
  ['lease'] = function(job) redis.call('ZADD', STARTED, now + GRACE, job.id) end,
  ['token'] = function(job, _, status)
    if status ~= 'started' then return set(job, 'token', '') end
    -- nobody can settle it: an attempt that nobody holds, whose lease is over; if there was a permit, it may have begun
    set(job, 'token', redis.call('HGET', JOB .. job.id, 'permit') or 'lost')
    redis.call('ZADD', STARTED, now, job.id)
  end,
  ['ended-at'] = function(job, _, status)
    if IS_ENDED[status] then set(job, 'ended_at', now) else redis.call('HDEL', JOB .. job.id, 'ended_at') end
  end,
}

local replies = {}
local function tell(job, found, mended)
  for _, word in ipairs({ job.id, found[1], found[2], found[3], mended }) do replies[#replies + 1] = word end
end
local function mend(id)
  for _ = 1, ROUNDS do
    local job = look({ id })[1]
    local wrong = findings(job)
    if #wrong == 0 then return end
    for _, found in ipairs(wrong) do
      remedies[found[1]](job, found[2], found[3])
      tell(job, found, 1)
    end
  end
  local job = look({ id })[1]
  for _, found in ipairs(findings(job)) do tell(job, found, 0) end
end

for _, id in ipairs(ARGV) do mend(id) end
if #replies > 0 then wake() end
return replies
