-- Tasks that some dispatchers of the queue cannot run: their file has no such task, or the function does not load
-- there. The jobs of these tasks are held, and only a claim whose caller has the task gets them. The texts of the jobs
-- do not change, so many can be held quickly. (needs now, queue, score, text, batches, job, events, places)
-- conf `held_tasks`    "<version> <task> <task> … ", each task one word; missing: there is no such task
-- conf `held:<task>`   "<since> <paused> <next>\n<error>": since when nobody takes its jobs, epoch ms; for how many ms
--                      of that no group served the queue; when to check for jobs that have waited too long; their error
-- conf `suspended_tasks_operator`, `suspended_tasks_file`: "<task> <task> … ", who has suspended which; each task is in
--                      `held_tasks`, too, and no caller has it
-- ns:{q}:held:?<task>  ZSET  the held jobs of one task: id -> the score that they had when they were ready
local MOST_HELD_TASKS = 1000
-- is_listed(names, task): names: conf `held_tasks`
local function is_listed(names, task) return names and names:find(' ' .. escape(task) .. ' ', 1, true) ~= nil end
-- write_names(held_names, tasks): tasks: the words, each with a blank after it
local function write_names(held_names, tasks)
  local version = math.max(now, (tonumber((held_names or ''):match('^%d+')) or 0) + 1)
  redis.call('HSET', CONF, 'held_tasks', whole(version) .. ' ' .. tasks)
end
-- add_name(task): returns whether its jobs may be held; false: there are too many such tasks
local function add_name(task)
  local held_names = redis.call('HGET', CONF, 'held_tasks')
  if is_listed(held_names, task) then return true end
  local tasks = held_names and held_names:match(' (.*)$') or ''
  local _, number = tasks:gsub(' ', '')
  if number >= MOST_HELD_TASKS then return false end
  write_names(held_names, tasks .. escape(task) .. ' ')
  return true
end
-- suspended_tasks(): word -> operator | file, who has suspended that task; of both the operator
local function suspended_tasks()
  local found, words = {}, redis.call('HMGET', CONF, 'suspended_tasks_file', 'suspended_tasks_operator')
  for i, who in ipairs({ 'file', 'operator' }) do
    for word in (words[i] or ''):gmatch('%S+') do found[word] = who end
  end
  return found
end
-- read_held(task): since, paused, next, error
local function read_held(task)
  local since, paused, next, err = (redis.call('HGET', CONF, 'held:' .. task) or ''):match('^(%d+) (%d+) (%d+)\n(.*)$')
  return tonumber(since) or now, tonumber(paused) or 0, tonumber(next) or 0, err or ''
end
local function write_held(task, since, paused, next, err)
  redis.call('HSET', CONF, 'held:' .. task, whole(since) .. ' ' .. whole(paused) .. ' ' .. whole(next) .. '\n' .. err)
end
-- hold_jobs(task, jobs, err): {score, id, …} -> held; returns whether they are the first ones: then dispatchers that
-- have the task must be woken
local function hold_jobs(task, jobs, err)
  local key = HELD_BY .. '?' .. task
  local is_first = redis.call('EXISTS', key) == 0
  if is_first then
    local _, _, _, before = read_held(task)
    write_held(task, now, 0, 0, err or before)
    redis.call('HSETNX', CONF, 'held_looked', whole(now))
  end
  call_in_batches('ZADD', HELD, jobs)
  call_in_batches('ZADD', key, jobs)
  return is_first
end
-- watch_expiry(id, h): a claim will check the held job when it expires
local function watch_expiry(id, h)
  local expires = finite(h.expires_at)
  if expires then redis.call('ZADD', AGAIN, whole(expires), 'x' .. id) end
end
-- release_jobs(task, jobs, why): held -> queued, {id, score, …}, with the scores that they had
local function release_jobs(task, jobs, why)
  local ids, expiring = {}, {}
  for i = 1, #jobs, 2 do
    ids[#ids + 1], expiring[#expiring + 1] = jobs[i], 'x' .. jobs[i]
    return_to_ready(jobs[i], jobs[i + 1])
    if events then events.record('queued', jobs[i], task, ' m' .. escape(why)) end
  end
  call_in_batches('ZREM', HELD_BY .. '?' .. task, ids)
  call_in_batches('ZREM', HELD, ids)
  call_in_batches('ZREM', AGAIN, expiring)
end
