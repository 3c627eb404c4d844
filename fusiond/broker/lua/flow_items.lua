-- include: now queue flows
--
-- flow_items(queue, run, step, first, last): how the jobs of a step have ended, without their results
--
-- KEYS  1 ns:{q}
-- ARGV  1 run · 2 step · 3 number of the first job · 4 of the last one
-- reply per job: empty: it has not ended, else its beginning in flow:<id>/ends: without a result, and 300 bytes at most
--
-- touches flow

local replies = {}
for n = ARGV[3], ARGV[4] do
  local said = redis.call('HGET', FLOW .. ARGV[1] .. '/ends', ('%s.%d'):format(ARGV[2], n)) or ''
  replies[#replies + 1] = said:match('^%d+ f%S* ') or said:sub(1, 300)
end
return replies
