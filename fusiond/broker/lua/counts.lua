-- include: now queue batches score text job events ready places held_tasks
--
-- counts(queue): how many jobs each status has, and how long the oldest ready job has waited
--
-- KEYS  1 ns:{q}
-- reply {deferred, scheduled, queued, started, finished, failed, canceled, inbox, broken, oldest wait in ms | nil,
--        suspended by operator 1 | nil, suspended by file 1 | nil, max_length | nil, started ones with an expired
--        lease, max_running | nil, rate as of `configure` | nil, pushes skipped as another job has their lock, held,
--        limits as of `configure` | nil, fair_by as of `configure` | nil, 1 while new turns are assigned | nil,
--        of the tasks with held jobs, and suspended ones, {task, how many, ms since when nobody takes them, who has
--        suspended it: operator | file | '', error or '', …}, broken ones that are kept}
--
-- moves nothing
-- touches queue scheduled started finished failed canceled deferred held inbox broken job conf

local MANY_TENANTS = 100          -- how many jobs of a priority to check
-- since(id): when it became ready
local function since(id)
  local state = state_of(id)
  return state and (time_in(state, 'q') or time_in(state, 'c')) or nil
end

-- oldest(depth): the first job of a priority has waited longest, so one per priority is enough; with tenants it is one
-- of the first
local function oldest(depth)
  local least, from = nil, '-inf'
  for _ = 0, 255 do
    local first = redis.call('ZRANGEBYSCORE', QUEUE, from, '+inf', 'WITHSCORES', 'LIMIT', 0, depth)
    if #first == 0 then break end
    for i = 1, #first, 2 do
      local ready = since(first[i])
      if ready and (not least or ready < least) then least = ready end
    end
    local following = with_sequence(first[2], BAND)
    -- somebody may have set an infinite score: no priority follows it
    if not (following > tonumber(first[2])) then break end
    from = following
  end
  return least and math.max(now - least, 0) or false
end

local replies = {}
for i, status in ipairs({ 'deferred', 'scheduled', 'queue', 'started', 'finished', 'failed', 'canceled' }) do
  replies[i] = redis.call('ZCARD', ROOT .. ':' .. status)
end
local inbox, kept = redis.pcall('LLEN', ROOT .. ':inbox'), redis.pcall('LLEN', ROOT .. ':broken')
local conf = redis.call('HMGET', CONF, 'broken', 'suspended_operator', 'suspended_file', 'max_length', 'max_running',
  'rate', 'skipped', 'limits', 'fair', 'placing', 'held_tasks')
replies[8] = type(inbox) == 'number' and inbox or 0
replies[9] = tonumber(conf[1]) or 0
replies[10] = oldest(conf[9] and MANY_TENANTS or 1)
replies[11], replies[12], replies[13] = conf[2], conf[3], tonumber(conf[4]) or false
replies[14] = redis.call('ZCOUNT', STARTED, '-inf', now)
replies[15], replies[16] = tonumber(conf[5]) or false, conf[6]
replies[17], replies[18], replies[19] = tonumber(conf[7]) or 0, redis.call('ZCARD', ROOT .. ':held'), conf[8]
replies[20], replies[21] = conf[9] or conf[10] and conf[10]:match('^%S+'), conf[10] and 1
local held, suspended = {}, conf[11] and suspended_tasks()
for name in (conf[11] and conf[11]:match(' (.*)$') or ''):gmatch('%S+') do
  local task = unescape(name)
  local jobs = redis.call('ZCARD', HELD_BY .. '?' .. task)
  local since, _, _, err = read_held(task)
  local by = suspended[name]
  for _, value in ipairs((jobs > 0 or by) and { task, jobs, now - since, by or '', err } or {}) do
    held[#held + 1] = value
  end
end
replies[22], replies[23] = held, type(kept) == 'number' and kept or 0
return replies
