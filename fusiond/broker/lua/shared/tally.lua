-- Counters of what becomes of jobs, by task; kept only where the file says `metrics: true`. (needs now, queue, many)
--
-- ns:{q}:metrics          HASH    at: the minute that `m` is of, epoch minutes · m <task>: counters of this minute · h <task>: of its hour up to
--                                 this minute · t <task>: of all time up to this minute
-- ns:{q}:metrics:minutes  STREAM  an entry for each of the last 120 minutes in which anything was counted: <task> -> counters, '' -> all tasks' sum
-- ns:{q}:metrics:hours    STREAM  the same of the last 720 hours
--
-- Counters are a text of words `<name>=<number>`. Only what is not 0 has one:
--   f x c  jobs that finished, failed, were canceled · r s l g  attempts after which the job goes on: retry, snoozed, released, rescued
--   k      crashes · h  how often a limit has held a job
--   R W    µs that attempts ran, and that their jobs had waited · R<n> W<n>  attempts in the n-th bucket, from 0 (counters.py has the limits)

-- tallies(): made at first use, so that a call that counts nothing pays for nothing
local function tallies()
  local METRICS = ROOT .. ':metrics'
  local KEPT = { minutes = 7200000, hours = 2592000000 }   -- ms
  local MOST_FIELDS = 1500          -- of METRICS, about 500 tasks; more are counted together: anybody may push jobs of any name
  local OTHERS = '(other)'
  local INSTEAD = { [3] = 'x', [4] = 'c' }
  local sums = {}                   -- task -> name -> number

  -- sums_of(task): what is counted of it in this call
  local function sums_of(task)
    local found = sums[task]
    if not found then
      found = {}
      sums[task] = found
    end
    return found
  end
  -- add_text(to, text): adds counters that were stored
  local function add_text(to, text)
    for name, number in text:gmatch('(%a%d*)=(%d+)') do to[name] = (to[name] or 0) + tonumber(number) end
    return to
  end
  local function text_of(counters)
    local words = {}
    for name, number in pairs(counters) do
      -- Lua writes 14 digits
      if number ~= 0 then words[#words + 1] = name .. '=' .. (number < 1e14 and number or whole(number)) end
    end
    return table.concat(words, ' ')
  end
  local function merged(text, more) return text and text_of(add_text(add_text({}, text), more)) or more end

  -- begin_anew(key, ms, texts): rewrites the stream without its entries of `ms` and later, and adds those to `texts`: the clock was set back
  -- since, so what they have counted is taken for what happened at `ms`. Only a new stream accepts an id below one that it gave before
  local function begin_anew(key, ms, texts)
    local entries, tasks = redis.pcall('XRANGE', key, '-', '+'), 0
    redis.call('DEL', key)
    if entries.err then return end  -- no stream: another program has written it
    for _ in pairs(texts) do tasks = tasks + 1 end
    for _, entry in ipairs(entries) do
      local id, words = entry[1], entry[2]
      if tonumber(id:match('^%d+')) < ms then
        redis.call('XADD', key, id, unpack(words, 1, math.min(#words, 2 * MOST_FIELDS + 2)))
      else
        for i = 1, #words, 2 do
          local task = words[i]
          if not texts[task] and task ~= '' then
            if tasks < MOST_FIELDS then tasks = tasks + 1 else task = OTHERS end
          end
          if task ~= '' then texts[task] = merged(texts[task], words[i + 1]) end
        end
      end
    end
  end

  -- append(stream, ms, texts): a new entry
  local function append(stream, ms, texts)
    if not next(texts) then return end
    local key = METRICS .. ':' .. stream
    local function add_entry()
      local all, words = {}, {}
      for task, text in pairs(texts) do
        add_text(all, text)
        words[#words + 1], words[#words + 2] = task, text
      end
      return redis.pcall('XADD', key, 'MINID', whole(now - KEPT[stream]), whole(ms) .. '-0', '', text_of(all), unpack(words))
    end
    if add_entry().err then
      begin_anew(key, ms, texts)
      add_entry()
    end
    redis.call('PEXPIRE', key, KEPT[stream])
  end

  -- turn(at, minute): minute `at` is over; what was counted in it goes to its hour, to the totals, and into the streams
  local function turn(at, minute)
    local flat, of, words = redis.call('HGETALL', METRICS), { m = {}, h = {}, t = {} }, {}
    for i = 1, #flat, 2 do
      local kind, task = flat[i]:match('^([mht]) (.*)$')
      if kind then of[kind][task] = flat[i + 1] end
    end
    for task, text in pairs(of.m) do
      of.h[task], of.t[task] = merged(of.h[task], text), merged(of.t[task], text)
    end
    append('minutes', at * 60000, of.m)
    if math.floor(at / 60) < math.floor(minute / 60) then
      append('hours', math.floor(at / 60) * 3600000, of.h)
      of.h = {}
    end
    for _, kind in ipairs({ 'h', 't' }) do
      for task, text in pairs(of[kind]) do words[#words + 1], words[#words + 2] = kind .. ' ' .. task, text end
    end
    redis.call('DEL', METRICS)
    many('HSET', METRICS, words)
  end

  -- write(): adds what was counted to what is stored
  local function write_sums()
    local minute, fields, words = math.floor(now / 60000), { 'at' }, {}
    for task in pairs(sums) do fields[#fields + 1] = 'm ' .. task end
    if #fields == 1 then return end
    local found = redis.pcall('HMGET', METRICS, unpack(fields))
    if found.err then return end    -- no hash: another program has written it
    local at = tonumber(found[1])
    if not at or at ~= minute then
      -- a minute that is still to come: the clock was set back, and its counters are taken for this minute's
      if at and at < minute then
        turn(at, minute)
        found = {}
      end
      words = { 'at', whole(minute) }
    end
    for i = 2, #fields do
      local task = fields[i]:sub(3)
      if not found[i] and task ~= OTHERS and redis.call('HLEN', METRICS) >= MOST_FIELDS then
        add_text(sums_of(OTHERS), text_of(sums[task]))
      elseif task ~= OTHERS then
        words[#words + 1], words[#words + 2] = fields[i], text_of(add_text(sums[task], found[i] or ''))
      end
    end
    if sums[OTHERS] then
      local before = redis.call('HGET', METRICS, 'm ' .. OTHERS) or ''
      words[#words + 1], words[#words + 2] = 'm ' .. OTHERS, text_of(add_text(sums[OTHERS], before))
    end
    many('HSET', METRICS, words)
    if words[1] == 'at' then redis.call('PEXPIRE', METRICS, KEPT.hours) end
  end

  -- outcomes(at, replies, is_stale): what settle.lua has settled. ARGV from `at`: 6 bytes for each outcome, which tell letter, crash, task and
  -- buckets; the two times of each; then name and sum of both times of each task. Most outcomes of a batch are alike, and are counted together
  local function outcomes(at, replies, is_stale)
    local codes, times, alike = ARGV[at], ARGV[at + 1], {}
    local function task_of(code) return at + 2 + 3 * struct.unpack('<H', code, 3) end
    for task = at + 2, #ARGV, 3 do
      local to = sums_of(ARGV[task])
      to.R, to.W = (to.R or 0) + ARGV[task + 1], (to.W or 0) + ARGV[task + 2]
    end
    for i, reply in ipairs(replies) do
      local code = codes:sub(6 * i - 5, 6 * i)
      if is_stale and is_stale[i] then
        local to, run, wait = sums_of(ARGV[task_of(code)]), struct.unpack('<dd', times, 16 * i - 15)
        to.R, to.W = to.R - run, to.W - wait
      else
        if INSTEAD[reply] then code = INSTEAD[reply] .. code:sub(2) end
        alike[code] = (alike[code] or 0) + 1
      end
    end
    for code, number in pairs(alike) do
      local letter, crash, _, run, wait = struct.unpack('<c1BHBB', code)
      local to = sums_of(ARGV[task_of(code)])
      to[letter] = (to[letter] or 0) + number
      if crash == 1 then to.k = (to.k or 0) + number end
      if run < 255 then
        run, wait = 'R' .. run, 'W' .. wait
        to[run], to[wait] = (to[run] or 0) + number, (to[wait] or 0) + number
      end
    end
    if next(alike) then write_sums() end
  end

  local function note(task, letter)
    local to = sums_of(task:sub(1, 255))
    to[letter] = (to[letter] or 0) + 1
  end
  -- chores(told, held): what a claim has rescued or ended (rescue.lua has the form), and the tasks of the jobs that limits have held in it
  local function chores(told, held)
    for i = 1, #told, 9 do
      local code = told[i + 2]
      if code ~= 'BROKEN' and code ~= 'NOT_CONFIRMED' then note(told[i + 1], code == 'RESCUED' and 'g' or code == 'CANCELED' and 'c' or 'x') end
    end
    for _, task in ipairs(held) do note(task, 'h') end
    write_sums()
  end
  -- jobs(list): task, letter, …
  local function jobs(list)
    for i = 1, #list, 2 do note(list[i], list[i + 1]) end
    write_sums()
  end

  return { outcomes = outcomes, chores = chores, jobs = jobs }
end
