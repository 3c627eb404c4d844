-- include: now queue score
--
-- counts(queue): how many jobs, by status, and how long the one has waited that is ready longest.
--
-- KEYS  1 ns:{q}
-- reply {deferred, scheduled, queued, started, finished, failed, canceled, inbox, broken, oldest wait in ms | nil,
--        suspended by operator 1 | nil, suspended by file 1 | nil, max_length | nil, started ones whose lease has expired}
--
-- moves nothing
-- touches queue scheduled started finished failed canceled deferred inbox job conf

-- since(id): when it became ready
local function since(id)
  local h = redis.pcall('HMGET', JOB .. id, 'queued_at', 'created_at')
  return tonumber(h[1] or h[2] or nil)
end

-- the first of each priority has waited longest in it, so one look a priority is enough
local function oldest()
  local least, from = nil, '-inf'
  for _ = 0, 255 do
    local first = redis.call('ZRANGEBYSCORE', QUEUE, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if #first == 0 then break end
    local ready = since(first[1])
    if ready and (not least or ready < least) then least = ready end
    local following = later(first[2], BAND)
    -- by hand a score can be infinite: there is no priority behind that one
    if not (following > tonumber(first[2])) then break end
    from = following
  end
  return least and math.max(now - least, 0) or false
end

local replies = {}
for i, status in ipairs({ 'deferred', 'scheduled', 'queue', 'started', 'finished', 'failed', 'canceled' }) do
  replies[i] = redis.call('ZCARD', ROOT .. ':' .. status)
end
local inbox = redis.pcall('LLEN', ROOT .. ':inbox')
local conf = redis.call('HMGET', CONF, 'broken', 'suspended_operator', 'suspended_file', 'max_length')
replies[8] = type(inbox) == 'number' and inbox or 0
replies[9] = tonumber(conf[1]) or 0
replies[10] = oldest()
replies[11], replies[12], replies[13] = conf[2], conf[3], tonumber(conf[4]) or false
replies[14] = redis.call('ZCOUNT', STARTED, '-inf', now)
return replies
