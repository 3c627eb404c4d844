-- Where a job belongs that is in no set. (needs now, queue, score, ends)
local KEPT = 86400000             -- ms, 1 day: how long it was to be kept is not in the hash
-- is_whole(text), place_of(text): whether it is a whole number; the score that it is, if a job can have it
local function is_whole(text)
  return #text <= 17 and text:find('^%-?%d+$')
end
local function place_of(text)
  local score = text and is_whole(text) and tonumber(text)
  return score and score >= 0 and score < 256 * BAND and score or nil
end
-- home(id, token, ended_at, last_outcome): the status that the hash speaks for. An error may be of an earlier attempt, a result is not.
local function home(id, token, ended_at, last_outcome)
  if ended_at then
    if redis.call('HEXISTS', JOB .. id, 'result') == 1 then return 'finished' end
    if last_outcome == 'canceled' then return 'canceled' end
    return redis.call('HEXISTS', JOB .. id, 'error') == 1 and 'failed' or 'finished'
  end
  return token and token ~= '' and 'started' or 'queued'
end
-- new_score(task): behind the task's priority.
local function new_score(task)
  local priority = (redis.call('HGET', CONF, 'task:' .. task) or ''):match('^(%d+) ')
  return (255 - (tonumber(priority) or 1)) * BAND + redis.call('INCR', SEQ)
end
-- bring_home(id, status, task, score): (none) -> status. `started` is an expired lease, which the next claim rescues.
local function bring_home(id, status, task, score)
  if status == 'queued' then
    redis.call('ZADD', QUEUE, score and later(score, redis.call('INCR', SEQ)) or new_score(task), id)
  elseif status == 'started' then
    redis.call('ZADD', STARTED, now, id)
  else
    redis.call('ZADD', ROOT .. ':' .. status, keep_until(status == 'failed' and FAILED_KEPT or KEPT), id)
  end
end
