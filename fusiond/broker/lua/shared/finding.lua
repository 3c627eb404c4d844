-- What fsck finds wrong with a job; a script sees it at one moment, so a job that moves is no finding. (needs now, queue, score, status, home)
local FARTHEST = 1e15             -- epoch ms; no due time of a producer is later
local LONGEST = 86400000          -- ms, 1 day: no lease is longer
local WAITS = { 'scheduled', 'queued', 'deferred' }
local ENDED = { 'finished', 'failed', 'canceled' }
local IS_ENDED = { finished = true, failed = true, canceled = true }
-- to come back with: from a delay, from a lost run, by requeue
local HAS_SCORE = { scheduled = true, started = true, failed = true, canceled = true }
local NUMBERS = {
  'created_at', 'queued_at', 'started_at', 'ended_at', 'expires_at', 'attempts', 'crashes', 'rescues', 'cancel',
  'unknown_since', 'interrupted',
}

-- read(id): the hash, as far as it matters here; `state`: absent, other (than a job) or job
local function read(id)
  local h = redis.pcall('HMGET', JOB .. id, 'task', 'token', 'score', 'last_outcome', unpack(NUMBERS))
  local job = { id = id, state = 'job', sets = {}, place = {} }
  if h.err or not h[1] or redis.call('HEXISTS', JOB .. id, 'args') == 0 then
    job.state = redis.call('EXISTS', JOB .. id) == 1 and 'other' or 'absent'
    return job
  end
  job.task, job.token, job.score, job.last_outcome = h[1], h[2] or '', h[3], h[4]
  for i, name in ipairs(NUMBERS) do job[name] = h[4 + i] end
  return job
end

-- look(ids): the jobs, each with the sets that hold it and its place in them
local function look(ids)
  local jobs = {}
  for i, id in ipairs(ids) do jobs[i] = read(id) end
  for _, status in ipairs(STATUSES) do
    local places = redis.pcall('ZMSCORE', set_of(status), unpack(ids))
    -- a key of another type holds no job; inspect_keys tells of it
    for i, job in ipairs(places.err and {} or jobs) do
      if places[i] then
        job.sets[#job.sets + 1] = status
        job.place[status] = tonumber(places[i])
      end
    end
  end
  return jobs
end

-- rightful(job): of the sets that hold a job the one that its hash speaks for; a scheduled job's early run could not be undone
local function rightful(job)
  local meant = home(job.id, job.token, job.ended_at, job.last_outcome)
  if meant ~= 'queued' and job.place[meant] then return meant end
  for _, group in ipairs(job.ended_at and { ENDED, WAITS } or { WAITS, { 'started' }, ENDED }) do
    for _, status in ipairs(group) do
      if job.place[status] then return status end
    end
  end
  return job.sets[1]
end

-- disagreements(job, status, add): between the hash of a job and the one set that holds it
local function disagreements(job, status, add)
  local odd = {}
  for _, name in ipairs(NUMBERS) do
    if job[name] and not is_whole(job[name]) then odd[#odd + 1] = name end
  end
  if not job.created_at then odd[#odd + 1] = 'created_at' end
  if #odd > 0 then add('number', table.concat(odd, ' '), status) end
  if not place_of(job.score) and (job.score or HAS_SCORE[status]) then
    add('score', job.score or 'missing', status)
  end
  local place = job.place[status]
  local text = string.format('%.17g', place)
  if status == 'queued' and not (place >= 0 and place < 256 * BAND) then add('place', text, status) end
  if status == 'scheduled' and not (place < FARTHEST) then add('due', text, status) end
  if status == 'started' and not (place <= now + LONGEST) then add('lease', text, status) end
  if (job.token ~= '') ~= (status == 'started') then add('token', job.token, status) end
  if (job.ended_at ~= false) ~= (IS_ENDED[status] == true) then add('ended-at', job.ended_at or 'missing', status) end
end

-- findings(job): {kind, detail, the status that is right}, …
local function findings(job)
  local found = {}
  local function add(...) found[#found + 1] = { ... } end
  local sets = table.concat(job.sets, ' ')
  if job.state == 'absent' then
    if #job.sets > 0 then add('no-body', sets, '') end
  elseif job.state == 'other' then
    add('no-job', sets, '')
  elseif #job.sets == 0 then
    add('no-set', '', home(job.id, job.token, job.ended_at, job.last_outcome))
  elseif #job.sets > 1 then
    add('many-sets', sets, rightful(job))
  else
    disagreements(job, job.sets[1], add)
  end
  return found
end
