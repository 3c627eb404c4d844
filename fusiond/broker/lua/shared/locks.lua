-- The locks of unique jobs: of the jobs of one task with the same values of some arguments, one holds the lock. (needs
-- queue, job)
-- ns:{q}:unique:<task>:<values> has the id of that job, and only that job frees it. If the rule is a number, the key
-- expires that many ms after the enqueue, whatever happens to the job.
-- A job's field `unique` is "<rule>,<since>,<values>". rule: started, ended or ms. since: when the first of the jobs
-- that it replaced was enqueued, or empty.
-- lock_of(task, unique): the key of its lock · the rule · since; nil: another program wrote the field
local function lock_of(task, unique)
  local rule, since, values = unique:match('^(%w+),(%d*),(.*)$')
  if rule then return ROOT .. ':unique:' .. task .. ':' .. values, rule, tonumber(since) end
end
local function holder(key)
  local id = redis.pcall('GET', key)
  return type(id) == 'string' and id or nil
end
local function take_lock(key, rule, id)
  if tonumber(rule) then redis.call('SET', key, id, 'PX', rule) else redis.call('SET', key, id) end
end
-- free_lock(id, h, moved): the job has ended, or begun. moved: it is in another queue now; then it also frees a lock
-- whose rule is a number
local function free_lock(id, h, moved)
  local key, rule = lock_of(h.task, h.unique)
  if key and (moved or not tonumber(rule)) and holder(key) == id then redis.call('DEL', key) end
end
-- other_holder(key, id): another job that holds the lock, and its fields; nil: there is none. A lock whose job is lost
-- or has ended is free
local function other_holder(key, id)
  local other = holder(key)
  if not other or other == id then return nil end
  local h = load_job(other)
  if (not h or h.ended_at) and redis.call('PTTL', key) < 0 then return nil end
  return other, h
end
