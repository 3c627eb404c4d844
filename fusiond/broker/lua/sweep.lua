-- include: now queue batches score text job events wake ready argument_values turns places locks follow tally ticks
-- include: endings reassign_turns after
--
-- sweep(queue, limit): deletes old ended jobs in queues where nothing is settled any more; shortens leases from before
-- the clock was put back, as the jobs of dead dispatchers would keep them for so long; assigns new turns if `fair_by`
-- has changed, as claims do
--
-- KEYS  1 ns:{q}
-- ARGV  1 limit, of each registry
-- reply {how many ended jobs were deleted, how many leases have expired, 1: more jobs are to get new turns}
--
-- moves finished | failed | canceled -> gone
--       deferred -> failed    EXPIRED, while it waited for others
-- touches finished ticks failed canceled started job deferred expiring parents queue tenants seq conf job unique
--         effects events metrics

local LONGEST = 60000             -- ms; longer than any lease
local gone = 0
local conf = redis.call('HMGET', CONF, 'fair', 'placing', 'gaps', 'events')
read_events(conf[4])
for _, status in ipairs({ 'finished', 'failed', 'canceled' }) do gone = gone + trim(status, tonumber(ARGV[1])) end
local far = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', STARTED, now + LONGEST + 1, '+inf', 'LIMIT', 0, ARGV[1])) do
  far[#far + 1], far[#far + 2] = now + LONGEST, id
end
-- at maxmemory Redis refuses ZADD as a script's first write
redis.call('ZREM', STARTED, '')
call_in_batches('ZADD', STARTED, far)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', EXPIRING, '-inf', now, 'LIMIT', 0, ARGV[1])) do
  end_deferred(id, 'EXPIRED', 'it had not begun when it expired')
end
write_endings()
if events then events.write() end
local more = (conf[1] or conf[2]) and reassign_turns(conf[1], conf[2], conf[3], tonumber(ARGV[1]))
return { gone, redis.call('ZCOUNT', STARTED, '-inf', now), more and 1 or 0 }
