-- include: now queue score
--
-- inspect_sequence(queue, repair): whether the counter of arrivals is below the last arrival; with `repair` it is set
-- to that
--
-- KEYS  1 ns:{q}
-- ARGV  1 repair 0|1
-- reply {the counter, the last arrival}, or nil: it is right
--
-- moves nothing
-- touches queue seq

local arrived = 0
for band = 0, 255 do
  local below, first = '(' .. whole((band + 1) * BAND), whole(band * BAND)
  local last = redis.call('ZREVRANGEBYSCORE', QUEUE, below, first, 'WITHSCORES', 'LIMIT', 0, 1)
  arrived = math.max(arrived, (last[2] or 0) % BAND)
end
local seq = redis.call('GET', SEQ)
if not seq and arrived == 0
  or seq and seq:find('^%d+$') and tonumber(seq) < BAND and tonumber(seq) >= arrived then return false end
if ARGV[1] == '1' then
  redis.call('ZREM', ROOT .. ':none', '')  -- at maxmemory, too
  redis.call('SET', SEQ, whole(arrived))
end
return { seq or 'missing', whole(arrived) }
