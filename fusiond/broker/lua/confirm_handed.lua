-- include: now queue batches
--
-- confirm_handed(queue, outbox, ids): which rows have a marker. Each marker is written again, so that a WAIT or WAITAOF
-- behind this holds for the markers, and thereby for the jobs, whoever has stored them
--
-- KEYS  1 ns:{q}
-- ARGV  1 the outbox · ids
-- reply {the time, ms, a digit per id: 1 it has a marker · 0 it has none: Redis has lost it, and the job with it}
--
-- moves nothing
-- touches handed

local HANDED, found, marks = ROOT .. ':handed:' .. ARGV[1], {}, {}
for i = 2, #ARGV do
  local there = redis.call('ZSCORE', HANDED, ARGV[i])
  found[i - 1] = there and '1' or '0'
  -- Redis passes on only what changes: the half is in no score that `enqueue_handed` writes
  if there then marks[#marks + 1], marks[#marks + 2] = whole(-now) .. '.5', ARGV[i] end
end
call_in_batches('ZADD', HANDED, marks)
return { now, table.concat(found) }
