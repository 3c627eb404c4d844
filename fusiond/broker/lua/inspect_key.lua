-- include: now
--
-- inspect_key(key, type, repair): whether a key is of another type than ours; with `repair` it is renamed, so that it can be written anew.
--
-- KEYS  1 the key: one of a queue, or one such as ns:cron that belongs to no queue
-- ARGV  1 the type that it should have · 2 repair 0|1
-- reply the type that it has, or nil: it is as it should be, or not there
--
-- The new name is <key>:broken:<ms>, in the slot of the key: one without braces is put into braces.
-- moves nothing; the jobs that such a key should have held are in no set
-- touches queue scheduled started finished failed canceled deferred held again tenants inbox broken conf seq ticks leaving arriving
--         meta queues workers daemons catalog cron sinks

local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' or kind == ARGV[1] then return false end
if ARGV[2] == '1' then
  local name = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
  redis.call('RENAME', KEYS[1], name .. ':broken:' .. now)
end
return kind
