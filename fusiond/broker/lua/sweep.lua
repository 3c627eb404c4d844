-- include: now queue many ends
--
-- sweep(queue, limit): drops ended jobs whose time is over, for queues in which nothing is settled any more.
--
-- KEYS  1 ns:{q}
-- ARGV  1 limit, of each registry
-- reply how many were dropped
--
-- moves finished | failed | canceled -> gone
-- touches finished failed canceled job

local gone = 0
for _, status in ipairs({ 'finished', 'failed', 'canceled' }) do gone = gone + trim(status, tonumber(ARGV[1])) end
return gone
