-- Counters of what happens to jobs; kept only if the file says `metrics: true`. (needs now, queue)
--
-- ns:{q}:metrics          HASH  <name> <task> -> number, since the beginning
-- ns:{q}:metrics:minutes  HASH  <name> <epoch minute> -> number, of all tasks together, of the last 120 minutes
-- ns:{q}:metrics:hour:<epoch hour>
--                         HASH  <name> <task> -> number, in this hour; of the last 30 days
--
-- The names:
--   f x c      jobs that finished, failed, were canceled
--   r s l g    attempts that did not end their job: retry, snoozed, released, rescued
--   k          crashes
--   h          how often a limit has held a job
--   i          of a minute: how many jobs had become ready in the queue before it
--   R W C      µs that attempts ran, that their jobs had waited, and that the processor worked for them
--   R<n> W<n>  attempts in the n-th bucket, from 0 (counters.py has the limits)

-- tallies(): created at the first use
local function tallies()
  local TOTALS, MINUTES = ROOT .. ':metrics', ROOT .. ':metrics:minutes'
  local HOUR = ROOT .. ':metrics:hour:' .. math.floor(now / 3600000)
  local TOTALS_KEPT, MINUTES_KEPT = 2592000000, 7200000  -- ms
  -- of TOTALS, about 500 tasks; more share one name, as anybody may push jobs of any name
  local MOST_FIELDS = 10000
  local OTHERS = '(other)'
  local CODE_OF_REPLY = { [3] = 'x', [4] = 'c' }
  local sums = {}                 -- task -> name -> number

  local function count_up(task, name, number)
    sums[task] = sums[task] or {}
    sums[task][name] = (sums[task][name] or 0) + number
  end
  -- increase(key, name, of, number): does not change a key or field of another type, which another program has written
  local function increase(key, name, of, number)
    if number ~= 0 then redis.pcall('HINCRBY', key, name .. ' ' .. of, number) end
  end
  -- is_known(task): whether it has a counter
  local function is_known(task)
    for _, name in ipairs({ 'f', 'x', 'c', 'r', 's', 'l', 'g', 'h' }) do
      if redis.call('HEXISTS', TOTALS, name .. ' ' .. task) == 1 then return true end
    end
  end
  -- begin_minute(minute): drops the oldest one, and extends the lives of the keys
  local function begin_minute(minute)
    for _, field in ipairs(redis.call('HKEYS', MINUTES)) do
      local minute_of_field = tonumber(field:match(' (%d+)$')) or 0
      if minute_of_field <= minute - MINUTES_KEPT / 60000 then redis.call('HDEL', MINUTES, field) end
    end
    redis.call('PEXPIRE', TOTALS, TOTALS_KEPT)
    redis.call('PEXPIRE', MINUTES, MINUTES_KEPT)
    redis.call('PEXPIRE', HOUR, TOTALS_KEPT)
    redis.call('HSET', MINUTES, 'i ' .. minute, redis.call('GET', SEQ) or 0)
  end

  local function write_sums()
    if not next(sums) then return end
    local minute, all = math.floor(now / 60000), {}
    local fields, nth = redis.pcall('HLEN', TOTALS), redis.pcall('HINCRBY', MINUTES, '* ' .. minute, 1)
    if type(fields) ~= 'number' or type(nth) ~= 'number' then return end
    for task, counters in pairs(sums) do
      if fields >= MOST_FIELDS and not is_known(task) then task = OTHERS end
      for name, number in pairs(counters) do
        increase(TOTALS, name, task, number)
        increase(HOUR, name, task, number)
        all[name] = (all[name] or 0) + number
      end
    end
    for name, number in pairs(all) do increase(MINUTES, name, minute, number) end
    if nth == 1 then begin_minute(minute) end
  end

  -- count_outcomes(at, replies, is_stale): the outcomes that settle.lua has settled. ARGV from `at`: 6 bytes for each
  -- outcome, which are letter, crash, task and buckets; three times of each; then name and sums of the times of each
  -- task. Most outcomes of a batch have the same 6 bytes, and are counted together
  local function count_outcomes(at, replies, is_stale)
    local codes, times, alike = ARGV[at], ARGV[at + 1], {}
    local function task_of(code) return ARGV[at + 2 + 4 * struct.unpack('<H', code, 3)] end
    for task = at + 2, #ARGV, 4 do
      count_up(ARGV[task], 'R', ARGV[task + 1])
      count_up(ARGV[task], 'W', ARGV[task + 2])
      count_up(ARGV[task], 'C', ARGV[task + 3])
    end
    for i, reply in ipairs(replies) do
      local code = codes:sub(6 * i - 5, 6 * i)
      if is_stale and is_stale[i] then
        local run, wait, cpu = struct.unpack('<ddd', times, 24 * i - 23)
        count_up(task_of(code), 'R', -run)
        count_up(task_of(code), 'W', -wait)
        count_up(task_of(code), 'C', -cpu)
      else
        if CODE_OF_REPLY[reply] then code = CODE_OF_REPLY[reply] .. code:sub(2) end
        alike[code] = (alike[code] or 0) + 1
      end
    end
    for code, number in pairs(alike) do
      local letter, crash, _, run, wait = struct.unpack('<c1BHBB', code)
      local task = task_of(code)
      count_up(task, letter, number)
      if crash == 1 then count_up(task, 'k', number) end
      if run < 255 then
        count_up(task, 'R' .. run, number)
        count_up(task, 'W' .. wait, number)
      end
    end
    if next(alike) then write_sums() end
  end

  -- count_reclaimed(reclaimed, held): the jobs that a claim has rescued or ended, as rescue.lua reports them, and the
  -- tasks of the jobs that limits have held in it
  local function count_reclaimed(reclaimed, held)
    for i = 1, #reclaimed, 9 do
      local code = reclaimed[i + 2]
      if code ~= 'BROKEN' then
        count_up(reclaimed[i + 1]:sub(1, 255), code == 'RESCUED' and 'g' or code == 'CANCELED' and 'c' or 'x', 1)
      end
    end
    for _, task in ipairs(held) do count_up(task:sub(1, 255), 'h', 1) end
    write_sums()
  end
  -- count_ended(list): list: task, letter, …
  local function count_ended(list)
    for i = 1, #list, 2 do count_up(list[i]:sub(1, 255), list[i + 1], 1) end
    write_sums()
  end

  return { count_outcomes = count_outcomes, count_reclaimed = count_reclaimed, count_ended = count_ended }
end
