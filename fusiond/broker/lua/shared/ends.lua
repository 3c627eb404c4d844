-- Ended jobs: a registry holds id -> the time from which the job may be dropped. (needs many, now)
local REMEMBERED = 60000          -- ms that an id is known after its end, so that a repeated enqueue does not run it again
local FAILED_KEPT = 2592000000    -- ms, 30 days, for a job that Redis itself fails
local REGISTRY_KEPT = 1000000     -- jobs in one registry
-- keep_until(ttl): the score of a job that ends now.
local function keep_until(ttl)
  return now + math.max(tonumber(ttl) or 0, REMEMBERED)
end
-- failure(code, message): the error document of a job that Redis itself ends.
local function failure(code, message)
  return '{"code":"' .. code .. '","type":"","message":"' .. message .. '","traceback":""}'
end
-- cancel_waiting(id, ttl, score): ends a job that waited; its sets are the caller's.
local function cancel_waiting(id, ttl, score)
  redis.call('HSET', JOB .. id, 'score', score, 'ended_at', now, 'last_outcome', 'canceled',
    'error', failure('CANCELED', 'it was canceled before it began'))
  redis.call('ZADD', ROOT .. ':canceled', keep_until(ttl), id)
end
-- too_many(key, limit): the first to go of a registry that has grown over REGISTRY_KEPT, of those whose id may be forgotten.
local function too_many(key, limit)
  local excess = math.min(redis.call('ZCARD', key) - REGISTRY_KEPT, limit)
  local gone = {}
  if excess <= 0 then return gone end
  for _, id in ipairs(redis.call('ZRANGE', key, 0, excess - 1)) do
    local ended = redis.pcall('HGET', JOB .. id, 'ended_at')
    if type(ended) ~= 'string' or (tonumber(ended) or 0) + REMEMBERED <= now then gone[#gone + 1] = id end
  end
  return gone
end
-- trim(status, limit): drops ended jobs whose time is over, hash and registry together, `limit` at most; how many.
local function trim(status, limit)
  local key = ROOT .. ':' .. status
  local gone = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, limit)
  if #gone == 0 then gone = too_many(key, limit) end
  if #gone == 0 then return 0 end
  for _, id in ipairs(gone) do redis.call('UNLINK', JOB .. id) end
  many('ZREM', key, gone)
  return #gone
end
