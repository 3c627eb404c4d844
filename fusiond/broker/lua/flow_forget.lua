-- include: now queue flows
--
-- flow_forget(queue, run): drops a run, whatever there is of it.
--
-- KEYS  1 ns:{q}
-- ARGV  1 id
-- reply nil
--
-- touches flow flows advance

redis.call('UNLINK', FLOW .. ARGV[1], FLOW .. ARGV[1] .. '/ends')
redis.call('ZREM', FLOWS, ARGV[1])
redis.call('ZREM', ADVANCE, ARGV[1])
