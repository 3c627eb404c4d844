-- The inbox: raw JSON objects that any language has pushed, taken in by the claim.
-- (needs now, queue, score, line_up, store, broken)
-- Only the header is decoded. The whole object is stored as it came, as `args`: what cjson decodes must not be encoded again,
-- since it turns [] into {}, rounds large integers and cuts floats to 14 digits.
local TEN_YEARS = 315360000       -- seconds
local LARGEST = 1048576           -- bytes, as of the producers' arguments
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

-- new_id(raw, nth): 22 characters as of the producers' ids: 48 bits of time, then what the digest of body and moment gives
local function new_id(raw, nth)
  local id, ms = characters(ROOT .. time[1] .. '.' .. time[2] .. '.' .. nth .. raw, 14), now
  for _ = 1, 8 do
    local digit = ms % 64
    id, ms = SORTED:sub(digit + 1, digit + 1) .. id, (ms - digit) / 64
  end
  return id
end

-- id_of_key(task, key): the same task and key pushed again are the same job
local function id_of_key(task, key)
  return 'k-' .. characters(task .. '\0' .. key, 20)
end

-- is_utf8(value): each good character of several bytes becomes a blank; a byte that is left is none
local SEVERAL = {
  '[\194-\223][\128-\191]', '\224[\160-\191][\128-\191]', '[\225-\239][\128-\191][\128-\191]',
  '\240[\144-\191][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]', '\244[\128-\143][\128-\191][\128-\191]',
}
local SURROGATE = '\237[\160-\191]'
local function is_utf8(value)
  if not value:find('[\128-\255]') then return true end
  if value:find(SURROGATE) then return false end
  for _, pattern in ipairs(SEVERAL) do value = value:gsub(pattern, ' ') end
  return not value:find('[\128-\255]')
end

-- text(value, most), number(value, least, most): the value if it is one, nil if it is absent, an error otherwise
local function text(name, value, most)
  if value == nil or value == cjson.null then return nil end
  if type(value) ~= 'string' or value == '' or #value > most then error(name .. ' is not a text of 1 to ' .. most .. ' bytes', 0) end
  if not is_utf8(value) then error(name .. ' is not UTF-8', 0) end
  return value
end
local function number(name, value, least, most)
  if value == nil or value == cjson.null then return nil end
  if type(value) ~= 'number' or not (value >= least and value <= most) then
    error(name .. ' is not a number from ' .. least .. ' to ' .. most, 0)
  end
  return value
end

-- read(raw): what the header says; raises a reason that a person can act on
local function read(raw)
  if #raw > LARGEST then error('larger than ' .. LARGEST .. ' bytes', 0) end
  local good, job = pcall(cjson.decode, raw)
  if not good then error('not JSON', 0) end
  if type(job) ~= 'table' or not raw:find('^%s*{') then error('not a JSON object', 0) end
  local task = text('task', job.task, 255)
  if not task then error('task is missing', 0) end
  local id = text('id', job.id, 128)
  if id and not id:find('^[%w_:.-]+$') then error('id has other characters than letters, digits and _:.-', 0) end
  return {
    id = id, task = task,
    priority = number('priority', job.priority, 0, 255),
    delay = number('delay', job.delay, 0, TEN_YEARS),
    at = number('at', job.at, 0, 1e11),
    expires = number('expires', job.expires, 0, TEN_YEARS),
    key = text('key', job.key, 255), log_tag = text('log_tag', job.log_tag, 255),
  }
end

-- defaults(job): priority and expiry of its task, as the daemons have written them to conf
local function defaults(job)
  local known = redis.call('HGET', CONF, 'task:' .. job.task)
  local priority, expires = (known or ''):match('^(%d+) (%d*)$')
  job.priority = math.floor(job.priority or tonumber(priority) or 1)
  if job.expires then
    job.expires_at = now + math.floor(job.expires * 1000)
  elseif tonumber(expires) then
    job.expires_at = now + tonumber(expires)
  end
  job.due = job.at and math.floor(job.at * 1000) or job.delay and now + math.floor(job.delay * 1000) or 0
end

-- take(raw, nth): stores one job; raises a reason
local function take(raw, nth)
  local job = read(raw)
  job.id = job.id or (job.key and id_of_key(job.task, job.key)) or new_id(raw, nth)
  local key = JOB .. job.id
  if redis.call('EXISTS', key) == 1 then
    local there = redis.pcall('HMGET', key, 'task', 'args')
    if there[1] == job.task and there[2] == raw then return end
    error((job.key and 'key ' .. job.key or 'id ' .. job.id) .. ' is taken by another job', 0)
  end
  defaults(job)
  local fields = {}
  if job.expires_at then add(fields, 'expires_at', job.expires_at) end
  -- its meta stays inside the raw object
  if job.key or job.log_tag then add(fields, 'header', cjson.encode({ key = job.key, log_tag = job.log_tag })) end
  store(job.id, job.task, raw, (255 - job.priority) * BAND + redis.call('INCR', SEQ), job.due, fields)
end

-- take_in(limit): moves up to `limit` bodies from the inbox to where they belong; whether there may be more
local function take_in(limit)
  local inbox = ROOT .. ':inbox'
  local length = redis.pcall('LLEN', inbox)
  if type(length) == 'table' then
    redis.call('RENAME', inbox, inbox .. ':broken')
    broken('the inbox was no list; it is kept as ' .. inbox .. ':broken', '')
    return false
  end
  if length == 0 then return false end
  local max = tonumber(redis.call('HGET', CONF, 'max_length'))
  -- full: what was pushed stays in the inbox until there is room
  if max then limit = math.min(limit, max - redis.call('ZCARD', QUEUE) - redis.call('ZCARD', SCHEDULED)) end
  if limit <= 0 then return false end
  -- LPUSH at one end, RPOP at the other: first in, first out
  for nth, raw in ipairs(redis.call('RPOP', inbox, limit)) do
    local good, reason = pcall(take, raw, nth)
    if not good then broken('inbox: ' .. tostring(reason), raw) end
  end
  return length > limit
end
