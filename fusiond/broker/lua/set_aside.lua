-- include: now
--
-- set_aside(key): renames a key of the namespace that is of another type than ours.
--
-- KEYS  1 ns:cron, or another key that belongs to no queue
-- ARGV  1 the type that it should have
-- reply the type that it had, or nil: it is as it should be, or not there
--
-- The braces of its new name keep it in its slot. Daemons write the key anew.
-- moves nothing
-- touches meta queues workers daemons catalog cron

local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' or kind == ARGV[1] then return false end
redis.call('RENAME', KEYS[1], '{' .. KEYS[1] .. '}:broken:' .. now)
return kind
