-- The inbox: raw JSON objects that programs in any language have pushed. The claim takes them in. (needs now, queue,
-- score, job, ready, store, room, broken, locks, unique, argument_values, limiter)
-- Only the header is decoded. The whole object is stored unchanged, as `args`: what cjson has decoded must not be
-- encoded again, since it turns [] into {}, rounds large integers and cuts floats to 14 digits.
local TEN_YEARS = 315360000       -- seconds
local LARGEST = 1048576           -- bytes, as of the producers' arguments
local skipped, must_wake = 0, false  -- pushes that were skipped as another job has the lock · a job is ready already

-- make_reader(): created only if the inbox has a job: creating functions takes a script as long as using them
local function make_reader()
  local locker
  local queue_of = elsewhere and cjson.decode(elsewhere) or {}
  local OPTIONS = { 'key', 'log_tag', 'retry', 'result_ttl', 'failure_ttl', 'description', 'traceparent' }
  local SORTED = '0123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'

  -- characters(text, n): n characters of the digest of a text
  local function characters(text, n)
    local out = {}
    for byte in redis.sha1hex(text):sub(1, 2 * n):gmatch('..') do
      local digit = tonumber(byte, 16) % 64
      out[#out + 1] = SORTED:sub(digit + 1, digit + 1)
    end
    return table.concat(out)
  end

  -- new_id(raw, nth): 22 characters, as producers make them: 48 bits of time, then a digest of body and time
  local function new_id(raw, nth)
    local id, ms = characters(ROOT .. time[1] .. '.' .. time[2] .. '.' .. nth .. raw, 14), now
    for _ = 1, 8 do
      local digit = ms % 64
      id, ms = SORTED:sub(digit + 1, digit + 1) .. id, (ms - digit) / 64
    end
    return id
  end

  -- id_of_key(task, key): the same task and key always give the same job
  local function id_of_key(task, key) return 'k-' .. characters(task .. '\0' .. key, 20) end

  -- is_utf8(value): replaces each valid character of several bytes by a blank; a byte that is left is not valid
  local SEVERAL = {
    '[\194-\223][\128-\191]', '\224[\160-\191][\128-\191]', '[\225-\239][\128-\191][\128-\191]',
    '\240[\144-\191][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]',
      '\244[\128-\143][\128-\191][\128-\191]',
  }
  local SURROGATE = '\237[\160-\191]'
  local function is_utf8(value)
    if not value:find('[\128-\255]') then return true end
    if value:find(SURROGATE) then return false end
    for _, pattern in ipairs(SEVERAL) do value = value:gsub(pattern, ' ') end
    return not value:find('[\128-\255]')
  end

  local function is_absent(value) return value == nil or value == cjson.null end
  -- text(value, most), number(value, least, most): the value; nil: it is absent; an error: it is not one
  local function text(name, value, most)
    if is_absent(value) then return nil end
    local is_good = type(value) == 'string' and value ~= '' and #value <= most
    if not is_good then error(name .. ' is not a text of 1 to ' .. most .. ' bytes', 0) end
    if not is_utf8(value) then error(name .. ' is not UTF-8', 0) end
    return value
  end
  local function number(name, value, least, most)
    if is_absent(value) then return nil end
    if type(value) ~= 'number' or not (value >= least and value <= most) then
      error(name .. ' is not a number from ' .. least .. ' to ' .. most, 0)
    end
    return value
  end

  local function traceparent(value)
    local said = text('traceparent', value, 255)
    if not said then return nil end
    local version, id, span, flags = said:match('^([%da-f]+)%-([%da-f]+)%-([%da-f]+)%-([%da-f]+)$')
    local good = version and #version == 2 and version ~= 'ff' and #id == 32 and id:find('[^0]')
      and #span == 16 and span:find('[^0]') and #flags == 2
    if not good then error('traceparent is not a W3C traceparent', 0) end
    return said
  end

  -- These keys change when or how often a job runs, or what happens at its end, so they are refused and not ignored.
  local BY_CLIENT, BY_FILE = 'enqueue the job with a client, or remove it',
    'the file says it of the task; remove it here'
  local NOT_PUSHED = {
    after = BY_CLIENT, join = BY_CLIENT, on_parent_failure = BY_CLIENT, timeout = BY_CLIENT,
    unique = BY_FILE, on_success = BY_FILE, on_failure = BY_FILE, limit = BY_FILE,
  }

  -- parse(raw): the header; raises a reason that a person can act on
  local function parse(raw)
    if #raw > LARGEST then error('larger than ' .. LARGEST .. ' bytes', 0) end
    local good, job = pcall(cjson.decode, raw)
    if not good then error('not JSON', 0) end
    if type(job) ~= 'table' or not raw:find('^%s*{') then error('not a JSON object', 0) end
    local task = text('task', job.task, 255)
    if not task then error('task is missing', 0) end
    for name, remedy in pairs(NOT_PUSHED) do
      if not is_absent(job[name]) then error(name .. ' is not a key of a pushed job: ' .. remedy, 0) end
    end
    local id = text('id', job.id, 128)
    if id and not id:find('^[%w_:.-]+$') then error('id has other characters than letters, digits and _:.-', 0) end
    return {
      id = id, task = task,
      priority = number('priority', job.priority, 0, 255),
      delay = number('delay', job.delay, 0, TEN_YEARS),
      at = number('at', job.at, 0, 1e11),
      expires = number('expires', job.expires, 0, TEN_YEARS),
      retry = text('retry', job.retry, 255), description = text('description', job.description, 255),
      result_ttl = number('result_ttl', job.result_ttl, 0, TEN_YEARS),
        failure_ttl = number('failure_ttl', job.failure_ttl, 0, TEN_YEARS),
      key = text('key', job.key, 255), log_tag = text('log_tag', job.log_tag, 255),
        traceparent = traceparent(job.traceparent), args = job.args, kwargs = job.kwargs,
    }
  end

  -- defaults(job): priority, expiry and uniqueness of its task, which daemons have written to conf
  local function defaults(job)
    local known = redis.call('HGET', CONF, 'task:' .. job.task)
    local priority, expires, unique, follow = (known or ''):match('^(%d+) (%d*) ?(%S*) ?(.*)$')
    job.priority = math.floor(job.priority or tonumber(priority) or 1)
    if job.expires then
      job.expires_at = now + math.floor(job.expires * 1000)
    elseif tonumber(expires) then
      job.expires_at = now + tonumber(expires)
    end
    job.follow, job.callbacks = (follow or ''):match('^(%a+)({.*})$')
    job.lock, job.by = (unique or ''):match('^(%w+,%l+,%d+),(.*)$')
    job.due = job.at and math.floor(job.at * 1000) or job.delay and now + math.floor(job.delay * 1000) or 0
  end

  local function new_score(job) return (255 - job.priority) * BAND + redis.call('INCR', SEQ) end

  -- take_unique(job, raw, header): stores the job if it gets its lock; raises a reason
  local function take_unique(job, raw, header)
    locker = locker or make_locker()
    local wanted = job.lock .. ',' .. argument_values().of(job.by, job.args, job.kwargs)
    local decision, other, refused = locker.decide_lock(job.id, job.task, wanted)
    if refused then error('job ' .. other .. ' exists already, and the task is `unique`: '
      .. 'a second job with the same arguments is refused', 0) end
    if not decision then
      skipped = skipped + 1
      return
    end
    locker.store(decision, job.task, raw, new_score(job), job.due, header, job.expires_at, job.follow)
    -- the next body may have the same lock
    write_endings()
    must_wake = write_ready() or must_wake
  end

  -- take(raw, nth): stores one job; raises a reason
  local function take(raw, nth)
    local job = parse(raw)
    job.id = job.id or (job.key and id_of_key(job.task, job.key)) or new_id(raw, nth)
    local key = JOB .. job.id
    if redis.call('EXISTS', key) == 1 then
      local there = load_job(job.id)
      if there and there.task == job.task and there.args == raw then return end
      error((job.key and 'key ' .. job.key or 'id ' .. job.id) .. ' is taken by another job', 0)
    end
    if queue_of[job.task] then
      error('task ' .. job.task .. ' has a limit, which holds in its queue ' .. queue_of[job.task] ..
        ' alone; push it to the inbox of that one', 0)
    end
    if limits and limits[job.task] then limiter.key_of(job.task, job.args, job.kwargs) end
    if job.retry and redis.call('HEXISTS', CONF, 'policy:none') == 1
      and redis.call('HEXISTS', CONF, 'policy:' .. job.retry) == 0 then
      error('retry: no daemon of the queue has a retry policy of this name', 0)
    end
    defaults(job)
    -- `meta` stays inside the raw object
    local options = {}
    for _, name in ipairs(OPTIONS) do options[name] = job[name] end
    local header = next(options) and cjson.encode(options) or ''
    -- the callbacks unchanged
    if job.follow then header = '{"follow":' .. job.callbacks .. (header == '' and '}' or ',' .. header:sub(2)) end
    if job.lock then return take_unique(job, raw, header) end
    store(job.id, job.task, raw, new_score(job), job.due, header, job.expires_at, nil, job.follow)
    write_stored()
  end

  return take
end

-- take_in(limit): takes up to `limit` bodies from the inbox; returns whether there may be more
local function take_in(limit)
  local inbox = ROOT .. ':inbox'
  local length = redis.pcall('LLEN', inbox)
  if type(length) == 'table' then
    redis.call('RENAME', inbox, inbox .. ':broken')
    store_broken('the inbox was not a list; it is kept as ' .. inbox .. ':broken', '')
    return false
  end
  if length == 0 then return false end
  -- a full queue leaves the bodies in the inbox
  limit = math.min(limit, room())
  if limit <= 0 then return false end
  -- LPUSH at one end, RPOP at the other: first in, first out
  local take = make_reader()
  for nth, raw in ipairs(redis.call('RPOP', inbox, limit)) do
    local good, reason = pcall(take, raw, nth)
    if not good then store_broken('inbox: ' .. tostring(reason), raw) end
  end
  if skipped > 0 then redis.call('HINCRBY', CONF, 'skipped', skipped) end
  return length > limit
end
