-- include: now queue many ends discard
--
-- discard_all(queue, status, start, limit): the same for `limit` jobs of a registry, from the place `start` on.
--
-- KEYS  1 ns:{q}
-- ARGV  1 failed | canceled · 2 start · 3 limit
-- reply {dropped or soon to be, those of them that are still there, jobs left in the registry}
--
-- moves failed | canceled -> gone
-- touches failed canceled job

local registry = ROOT .. ':' .. ARGV[1]
redis.call('ZREM', registry, '')
local before, found = redis.call('ZCARD', registry), redis.call('ZRANGE', registry, ARGV[2], ARGV[2] + ARGV[3] - 1)
for _, id in ipairs(found) do discard(id) end
local left = redis.call('ZCARD', registry)
return { #found, #found - (before - left), left }
