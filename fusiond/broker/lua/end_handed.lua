-- include: now queue batches
--
-- end_handed(queue, outbox, ids): the rows are deleted, and committed: their markers are kept for 10 more minutes, in
-- case the database loses its last commits in a failover
--
-- KEYS  1 ns:{q}
-- ARGV  1 the outbox · ids
-- reply 1
--
-- moves nothing
-- touches handed

local KEPT, MOST = 600000, 1000   -- ms; expired markers that one call removes
local HANDED, marks = ROOT .. ':handed:' .. ARGV[1], {}
for i = 2, #ARGV do marks[2 * i - 3], marks[2 * i - 2] = whole(now + KEPT), ARGV[i] end
call_in_batches('ZADD', HANDED, marks, 'XX')
call_in_batches('ZREM', HANDED, redis.call('ZRANGEBYSCORE', HANDED, 0, now, 'LIMIT', 0, MOST))
-- of an outbox that nobody uses any more, nothing is left
if redis.call('ZCOUNT', HANDED, '-inf', '(0') == 0 then redis.call('PEXPIRE', HANDED, KEPT + 1000) end
return 1
