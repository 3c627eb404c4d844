-- A job that is moved between queues is `deferred` in both until it has left the first one: nobody claims it. (needs now, queue, score, line_up,
-- job, ends)
-- ns:{q}:leaving and ns:{q}:arriving hold id -> "<nonce> <queued | scheduled> <place> <the other queue>"; the nonce names one move of one job.
local LEAVING, ARRIVING, DEFERRED = ROOT .. ':leaving', ROOT .. ':arriving', ROOT .. ':deferred'
-- move_of(hash, id, nonce): kind and place of this move of the job; nil where there is none, or another one
local function move_of(hash, id, nonce)
  local record = redis.call('HGET', hash, id)
  if not record then return nil end
  local of, kind, place = record:match('^(%S+) (%S+) (%S+) ')
  if of == nonce then return kind, finite(place) or 0 end
end
-- undefer(id, h, kind, enter, score, due): deferred -> queue | scheduled, or canceled if that was asked meanwhile. `enter`: how it gets into the
-- row; `score`: as a ready job's
local function undefer(id, h, kind, enter, score, due)
  if redis.call('ZREM', DEFERRED, id) == 0 then return end
  if h and h.cancel then
    cancel_waiting(id, h, h.cancel, whole(score))
  elseif kind == 'scheduled' then
    add(later_on, whole(due), id)
  else
    enter(id, whole(score), h and h.args)
  end
end
