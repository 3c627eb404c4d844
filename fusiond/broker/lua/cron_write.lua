-- include: now
--
-- cron_write(entry, version, values): changes the record of a cron entry, unless it was changed since it was read
--
-- KEYS  1 ns:cron
-- ARGV  1 field of the version · 2 the version that was read; empty: there was none; or any
--       3 n · then n fields to delete · then pairs of field and value
-- reply the new version, or nil: it was changed since, and nothing is written
--
-- The version is the time of the write, not a count: a Redis that has lost data would give the same count twice.
-- moves nothing
-- touches cron

local version = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if ARGV[2] ~= 'any' and ARGV[2] ~= version then return false end
local dropped = tonumber(ARGV[3])
-- at maxmemory Redis runs a script whose first write frees memory: a tick whose job exists must be confirmed
if dropped > 0 then redis.call('HDEL', KEYS[1], unpack(ARGV, 4, 3 + dropped)) end
local following = time[1] .. '.' .. time[2]
redis.call('HSET', KEYS[1], ARGV[1], following, unpack(ARGV, 4 + dropped))
return following
