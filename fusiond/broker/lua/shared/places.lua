-- Places of tasks that have a limit, and the jobs that a limit holds. (needs now, queue, job, events, ready)
-- A limit counts the jobs of one key: `<task>`, or `<task> kwargs.account="acme"`. A held job without a `limit` is held
-- for its task (held_tasks.lua), and its key is `?<task>`. The values of a job's field `limit`:
--   -      it runs, and counts only towards its queue's max_running
--   a key  it runs and has a place of that key; or that key holds it; or it was held, was released, and is ready now
-- ns:{q}:places:<key>  HASH  id -> token of the attempt that has the place
-- ns:{q}:held          ZSET  all held jobs: id -> the score that they had when they were ready
-- ns:{q}:held:<key>    ZSET  the same of one key
-- ns:{q}:again         ZSET  ms: when to check a key that holds jobs ('k<key>'), and when a held job expires ('x<id>')
-- A key that holds jobs has a released job in the ready set, or no free place, or a time in `again`. So each script
-- that removes a released job of a key from the ready set without a claim, or frees a place, releases the next held job
-- of the key.
local HELD, HELD_BY, PLACES, AGAIN = ROOT .. ':held', ROOT .. ':held:', ROOT .. ':places:', ROOT .. ':again'
-- release_next(key): moves the best held job of the key to the ready set, with the score that it had; returns whether
-- there was one
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
-- free_place(id, limit): an attempt under this limit has ended
local function free_place(id, limit)
  has_free_place = true
  if limit ~= '-' then
    redis.call('HDEL', PLACES .. limit, id)
    release_next(limit)
  end
end
-- leave_limit(id, h): a waiting job goes elsewhere: removes it from the held jobs; if it was released before, releases
-- the next one
local function leave_limit(id, h)
  if redis.call('ZREM', HELD, id) == 1 then
    redis.call('ZREM', HELD_BY .. (h.limit or '?' .. h.task), id)
    redis.call('ZREM', AGAIN, 'x' .. id)
  elseif h.limit and h.limit ~= '-' then
    release_next(h.limit)
  end
  h.limit = nil
end
