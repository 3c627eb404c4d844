-- include: now queue many score text claims job events wake line_up by turns places locks follow tally ends placing after
--
-- sweep(queue, limit): drops ended jobs whose time is over, for queues in which nothing is settled any more; and
-- shortens leases that were given before the clock was put back: whoever died with one would keep its job for so long. Also places jobs anew
-- where `fair_by` has changed, as claims do. And forgets claims whose jobs were deleted by other means than the verbs.
--
-- KEYS  1 ns:{q}
-- ARGV  1 limit, of each registry
-- reply {how many ended jobs were dropped, how many leases have expired, 1: there are more jobs to be placed anew}
--
-- moves finished | failed | canceled -> gone
--       deferred -> failed    EXPIRED, while it waited for others
-- touches finished failed canceled started claims job deferred expiring parents queue tenants seq conf job unique outbox events metrics

local LONGEST = 60000             -- ms; no lease is asked for that long
local OLD = 3600000               -- ms, 1 hour; the jobs of a claim have texts of their own as soon as their leases are renewed
local gone = 0
local conf = redis.call('HMGET', CONF, 'fair', 'placing', 'gaps', 'events')
read_events(conf[4])
for _, status in ipairs({ 'finished', 'failed', 'canceled' }) do gone = gone + trim(status, tonumber(ARGV[1])) end
local far = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', STARTED, now + LONGEST + 1, '+inf', 'LIMIT', 0, ARGV[1])) do
  far[#far + 1], far[#far + 2] = now + LONGEST, id
end
-- at maxmemory ZADD is refused as a script's first write
redis.call('ZREM', STARTED, '')
many('ZADD', STARTED, far)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', EXPIRING, '-inf', now, 'LIMIT', 0, ARGV[1])) do
  fail_waiting(id, 'EXPIRED', 'it had not begun when it expired')
end
-- has_job(token): whether a job still has the text that the claim has left
local function has_job(token)
  for id in claims().jobs_of(token) do
    if claims().created(state_of(id) or '', token) then return true end
  end
end
for _, token in ipairs(claims().all()) do
  if claims().of(token).at + OLD < now and not has_job(token) then claims().forget(token) end
end
write_endings()
if events then events.write() end
local more = (conf[1] or conf[2]) and place_anew(conf[1], conf[2], conf[3], tonumber(ARGV[1]))
return { gone, redis.call('ZCOUNT', STARTED, '-inf', now), more and 1 or 0 }
