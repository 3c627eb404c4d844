-- A job that is moved between queues is `deferred` in both until it has left the first one: nobody claims it. (needs now, queue, score, line_up,
-- ends)
-- ns:{q}:leaving and ns:{q}:arriving hold id -> "<nonce> <queued | scheduled> <place> <the other queue>"; the nonce names one move of one job.
local LEAVING, ARRIVING, DEFERRED = ROOT .. ':leaving', ROOT .. ':arriving', ROOT .. ':deferred'
-- move_of(hash, id, nonce): kind and place of this move of the job; nil where there is none, or another one
local function move_of(hash, id, nonce)
  local record = redis.call('HGET', hash, id)
  if not record then return nil end
  local of, kind, place = record:match('^(%S+) (%S+) (%S+) ')
  if of == nonce then return kind, finite(place) or 0 end
end
-- undefer(id, kind, score): deferred -> queue | scheduled, or canceled if that was asked meanwhile; `score`: as a ready job's
local function undefer(id, kind, score, due)
  if redis.call('ZREM', DEFERRED, id) == 0 then return end
  local ttl = redis.call('HGET', JOB .. id, 'cancel')
  if ttl then
    cancel_waiting(id, ttl, score)
  elseif kind == 'scheduled' then
    add(later_on, due, id)
  else
    add(ready, score, id)
  end
end
