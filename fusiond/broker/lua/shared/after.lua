-- Jobs that wait for others, their parents, which may be in other queues. (needs now, queue, score, job, ready, follow,
-- endings)
-- ns:{q}:parents:<id>   HASH  of a job that waits: need: how many parents must end well; got: how many have ended well;
--                             left: how many have not ended; run 1: each end is a good one; due: the job's own due
--                             time, ms; "p <queue>/<id>": a parent that has not ended
-- ns:{q}:children:<id>  LIST  of a parent: "<queue>/<id> <name of this job in that job's list of parents>"
-- ns:{q}:expiring       ZSET  jobs that wait for others -> when they expire, ms
-- The job is in `deferred`. Through its queue's effects it asks each parent for a message about its end, and the
-- parent's queue answers through its own effects.
local PARENTS, EXPIRING = ROOT .. ':parents:', ROOT .. ':expiring'
local NEVER = now + 1e12          -- ms; until `write_deferred` the job is among the scheduled ones
local deferred = {}               -- {now, id, …}
-- defer(id, after, due, follow, expires_at): a new job waits; after: "<need, 0: all> <run 0|1> <parent> …". Returns its
-- due time and `follow` for `store`, and true
local function defer(id, after, due, follow, expires_at)
  local need, run, names = after:match('^(%d+) (%d) (.*)$')
  local fields, left, here = {}, 0, ROOT:match('{(.*)}$')
  for name in names:gmatch('%S+') do
    local queue, parent = name:match('^([^/]+)/(.+)$')
    if not fields[name] then
      fields[name], left = true, left + 1
      redis.call('HSET', PARENTS .. id, 'p ' .. name, '')
      post(queue, 'after', parent, here, id, name)
    end
  end
  need = need == '0' and left or math.min(tonumber(need), left)
  redis.call('HSET', PARENTS .. id, 'need', need, 'got', 0, 'left', left, 'run', run, 'due', whole(due))
  if expires_at then redis.call('ZADD', EXPIRING, whole(expires_at), id) end
  add(deferred, whole(now), id)
  return NEVER, (follow or '') .. 'd', true
end
-- write_deferred(): scheduled -> deferred; comes after `write_ready`
local function write_deferred()
  for i = 2, #deferred, 2 do redis.call('ZREM', SCHEDULED, deferred[i]) end
  call_in_batches('ZADD', ROOT .. ':deferred', deferred)
  if has_posted then write_posted() end
end
-- leave_deferred(id): the job no longer waits for others; returns its fields, nil: it does not wait
local function leave_deferred(id)
  redis.call('DEL', PARENTS .. id)
  redis.call('ZREM', EXPIRING, id)
  if redis.call('ZREM', ROOT .. ':deferred', id) == 0 then return nil end
  local h = load_job(id)
  if h then h.follow = h.follow and h.follow:gsub('d', '') end
  if h and h.follow == '' then h.follow = nil end
  return h
end
-- release_deferred(id, due): deferred -> queued | scheduled
local function release_deferred(id, due)
  local h = leave_deferred(id)
  if not h then return end
  h.queued_at = now
  save_job(id, h)
  if events then
    local due_word = due > now and ' u' .. whole(due - now) or ''
    events.record_job(due > now and 'scheduled' or 'queued', id, h, due_word .. ' mwhat+it+waited+for+has+ended')
  end
  if due > now then
    add(scheduled, whole(due), id)
  else
    make_ready(id, whole(with_sequence(finite(h.score) or 254 * BAND, redis.call('INCR', SEQ))), h.args)
  end
end
-- fail_deferred(id, h, code, message): ends a waiting job; the caller writes its text
local function fail_deferred(id, h, code, message)
  h.ended_at, h.last_outcome, h.error = now, code:lower(), failure(code, message)
  register_ended(id, 'failed', failure_ttl(h), h)
  add(ended_waiting, h.task, 'x')
  if events then events.record_ended('failed', id, h) end
end
-- end_deferred(id, code, message): deferred -> failed
local function end_deferred(id, code, message)
  local h = leave_deferred(id)
  if not h then return end
  fail_deferred(id, h, code, message)
  save_job(id, h)
end
-- parent_ended(id, name, status): one of the job's parents has ended; a repeat changes nothing
local HOW_ENDED = { failed = 'has failed', canceled = 'was canceled', missing = 'is not kept any more, or never was' }
local function parent_ended(id, name, status)
  local key = PARENTS .. id
  if redis.call('HEXISTS', key, 'p ' .. name) == 0 then return end
  local rule = redis.call('HMGET', key, 'need', 'got', 'left', 'due', 'run')
  local need, got, left, due = tonumber(rule[1]), tonumber(rule[2]), tonumber(rule[3]), tonumber(rule[4])
  if not (need and got and left and due) then error('what job ' .. id .. ' waits for cannot be read', 0) end
  redis.call('HDEL', key, 'p ' .. name)
  left = redis.call('HINCRBY', key, 'left', -1)
  if status == 'finished' or rule[5] == '1' then got = redis.call('HINCRBY', key, 'got', 1) end
  if got >= need then
    release_deferred(id, due)
  elseif got + left < need then
    local code = status == 'missing' and 'PARENT_MISSING' or 'PARENT_FAILED'
    end_deferred(id, code, 'its parent ' .. name:gsub('[^%w_.:@/-]', '?') .. ' ' .. (HOW_ENDED[status] or 'has ended'))
  end
end
-- ended_status(id, h): nil: it has not ended
local function ended_status(id, h)
  if not h.ended_at then return nil end
  return redis.call('ZSCORE', ROOT .. ':finished', id) and 'finished'
    or redis.call('ZSCORE', ROOT .. ':canceled', id) and 'canceled' or 'failed'
end
-- add_child(id, queue, child, name): the job `child` asks for a message about the end of this job
local function add_child(id, queue, child, name)
  local key, entry = ROOT .. ':children:' .. id, queue .. '/' .. child .. ' ' .. name
  if redis.call('EXISTS', key) == 0 then
    local h = load_job(id)
    local status = not h and 'missing' or ended_status(id, h)
    if status then return post(queue, 'parent_ended', child, name, status) end
    if not (h.follow or ''):find('c') then
      h.follow = (h.follow or '') .. 'c'
      save_job(id, h)
    end
  end
  redis.call('RPUSH', key, entry)
end
