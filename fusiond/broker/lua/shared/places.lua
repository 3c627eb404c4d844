-- Places of tasks that have a limit, and the jobs that it holds. (needs now, queue, job, events, ready)
-- A limit counts the jobs of one key: `<task>`, or `<task> kwargs.account="acme"`. A held job whose `limit` is not set is held for its task
-- (held_tasks.lua), and its key is `?<task>`. What a job's `limit` says:
--   -      it runs, and counts towards its queue's max_running alone
--   a key  it runs and has a place of that key; or it is held by it; or it was, and is in the row for its turn
-- ns:{q}:places:<key>  HASH  id -> token of the attempt that has the place
-- ns:{q}:held          ZSET  all held jobs: id -> the score that they had in the row; ns:{q}:held:<key> the same of one key
-- ns:{q}:again         ZSET  ms: when to look again at a key ('k<key>') that holds jobs, and when a held job expires ('x<id>')
-- A key that holds jobs has a job in the row or a full number of places, or its time in `again` comes: whatever takes a job of a key away
-- from where it has its turn passes the turn on.
local HELD, HELD_BY, PLACES, AGAIN = ROOT .. ':held', ROOT .. ':held:', ROOT .. ':places:', ROOT .. ':again'
-- release_next(key): the best held job of the key -> queue, at the place that it had; whether there was one
local function release_next(key)
  repeat
    local best = redis.call('ZPOPMIN', HELD_BY .. key)
    if #best == 0 then return false end
    if redis.call('ZREM', HELD, best[1]) == 1 then
      return_to_ready(best[1], best[2])
      local h = events and load_job(best[1])
      if h then events.record_job('queued', best[1], h, ' mits+limit+lets+it+go+on') end
      return true
    end
  until false
end
-- free_place(id, limit): an attempt that ran under this limit is over
local function free_place(id, limit)
  has_free_place = true
  if limit ~= '-' then
    redis.call('HDEL', PLACES .. limit, id)
    release_next(limit)
  end
end
-- leave_limit(id, h): a job that waited goes elsewhere; out of what holds it, or its turn is passed on
local function leave_limit(id, h)
  if redis.call('ZREM', HELD, id) == 1 then
    redis.call('ZREM', HELD_BY .. (h.limit or '?' .. h.task), id)
    redis.call('ZREM', AGAIN, 'x' .. id)
  elseif h.limit and h.limit ~= '-' then
    release_next(h.limit)
  end
  h.limit = nil
end
