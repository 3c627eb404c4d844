-- include: now queue many ends
--
-- cancel(queue, id, ttl_ms): ends a job that waits, asks for the end of one that runs.
--
-- KEYS  1 ns:{q}
-- ARGV  1 id · 2 ms that the canceled job is kept
-- reply canceled · asked: it runs; its dispatcher hears of it by the next renew, which the message on `wake` brings forward; or it
--       is being moved to another queue, where it will be canceled · ended: it had ended before · missing
--
-- moves queue | scheduled | deferred -> canceled
-- A finish that arrives before the cancel is carried out wins.
-- touches queue scheduled deferred leaving job canceled wake

redis.call('ZREM', QUEUE, '')
local id, ttl = ARGV[1], ARGV[2]
local h = redis.pcall('HMGET', JOB .. id, 'task', 'token', 'ended_at', 'score')
if h.err or not h[1] then return 'missing' end
if h[3] then return 'ended' end
if (h[2] or '') ~= '' or redis.call('HEXISTS', ROOT .. ':leaving', id) == 1 then
  redis.call('HSET', JOB .. id, 'cancel', ttl)
  redis.call('PUBLISH', WAKE, 'cancel')
  return 'asked'
end
cancel_waiting(id, ttl, redis.call('ZSCORE', QUEUE, id) or h[4] or 0)
redis.call('ZREM', QUEUE, id)
redis.call('ZREM', SCHEDULED, id)
redis.call('ZREM', ROOT .. ':deferred', id)
trim('canceled', 10)
return 'canceled'
