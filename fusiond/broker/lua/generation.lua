-- include: score
--
-- generation(hash, before): the number of an accepted configuration; hosts with the same content get the same number
--
-- KEYS  1 ns:meta
-- ARGV  1 hash of the content · 2 hash of the configuration that this daemon had accepted before, or empty
-- reply the number: a new one if the content is new, or if this daemon has returned to it from a newer one
--
-- touches meta

local KEPT = 100
local newest = math.max(finite(redis.call('HGET', KEYS[1], 'generation')) or 0, 0)
local known = finite(redis.call('HGET', KEYS[1], 'generation:' .. ARGV[1]))
local came_back = ARGV[2] ~= '' and ARGV[2] ~= ARGV[1]
if known and (known == newest or not came_back) then return known end
newest = newest + 1
redis.call('HSET', KEYS[1], 'generation', newest, 'generation:' .. ARGV[1], newest)
if redis.call('HLEN', KEYS[1]) > 2 * KEPT then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local is_old = (tonumber(all[i + 1]) or 0) <= newest - KEPT
    if is_old and all[i]:find('^generation:') then redis.call('HDEL', KEYS[1], all[i]) end
  end
end
return newest
