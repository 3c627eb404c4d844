-- include: now queue batches score text job events wake ready places locks follow tally ticks endings held_tasks
--
-- end_held(queue, task, what, rank, limit, fail_after, error): releases the next held jobs of a task, or fails those
-- that have waited too long
--
-- KEYS  1 ns:{q}
-- ARGV  1 task · 2 go | fail · 3 rank of the first one to check · 4 limit · 5 fail_after, ms
--       6 error for a task that has none of its own
-- reply {how many, rank of the next one, or -1: there is none}
--
-- moves held -> queue     go: their old scores
--       held -> failed    fail: TASK_NOT_FOUND, or why the function does not load
-- touches conf ticks queue held again job unique effects failed events metrics wake

redis.call('ZREM', QUEUE, '')
local task, rank, limit, fail_after = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
if suspended_tasks()[escape(task)] then return { 0, -1 } end
local key = HELD_BY .. '?' .. task
read_events(redis.call('HGET', CONF, 'events'))
local since, paused, _, err = read_held(task)
if err == '' then err = ARGV[6] end

-- fail(id): returns whether it has waited too long
local function fail(id)
  local h = load_job(id)
  local ready = h and finite(h.queued_at or h.created_at)
  if not ready or math.max(since, ready) + paused + fail_after > now then return false end
  h.score = redis.call('ZSCORE', HELD, id) or h.score
  leave_limit(id, h)
  h.ended_at, h.last_outcome, h.error = now, 'failed', err
  register_ended(id, 'failed', failure_ttl(h), h)
  add(ended_waiting, h.task, 'x')
  if events then events.record_ended('failed', id, h) end
  save_job(id, h)
  return true
end

local page, number = redis.call('ZRANGE', key, rank, rank + limit - 1, 'WITHSCORES'), 0
if ARGV[2] == 'go' then
  release_jobs(task, page, 'its task can run')
  number = #page / 2
else
  for i = 1, #page, 2 do number = number + (fail(page[i]) and 1 or 0) end
end
write_endings()
if write_ready() then wake() end
if events then events.write() end
return { number, #page == 2 * limit and rank + #page / 2 - number or -1 }
