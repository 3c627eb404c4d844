-- include: now queue
--
-- cron_state(queue, entry, ticks): what is known of a cron entry; the first who is going to tick it sets `first_seen`.
--
-- KEYS  1 ns:{q}
-- ARGV  1 entry · 2 1: asked to tick it · 0: to look
-- reply {last | nil, first_seen, suspended 0|1, last_job | nil, last_enqueued | nil, now}
--
-- moves nothing
-- touches cron

local CRON = ROOT .. ':cron:' .. ARGV[1]
local state = redis.call('HMGET', CRON, 'last', 'first_seen', 'suspended', 'last_job', 'last_enqueued')
if not tonumber(state[2]) then
  if ARGV[2] == '1' then redis.call('HSET', CRON, 'first_seen', now) end
  state[2] = now
end
return { state[1], tonumber(state[2]), state[3] and 1 or 0, state[4], state[5], now }
