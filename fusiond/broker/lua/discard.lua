-- include: now queue many ends discard
--
-- discard(queue, ids): drops failed and canceled jobs before their time is over.
--
-- KEYS  1 ns:{q}
-- ARGV  ids
-- reply per id: 1 dropped · 0 it is neither failed nor canceled
--
-- moves failed | canceled -> gone
-- touches failed canceled job

-- At maxmemory this must work: the first write is one that Redis lets pass.
redis.call('ZREM', ROOT .. ':failed', '')
local replies = {}
for i, id in ipairs(ARGV) do replies[i] = discard(id) end
return replies
