-- include: now queue
--
-- cron_state(queue, entry): what is known of a cron entry; whoever asks first sets `first_seen`.
--
-- KEYS  1 ns:{q}
-- ARGV  1 entry
-- reply {last | nil, first_seen, suspended 0|1, last_job | nil, now}
--
-- moves nothing
-- touches cron

local CRON = ROOT .. ':cron:' .. ARGV[1]
local state = redis.call('HMGET', CRON, 'last', 'first_seen', 'suspended', 'last_job')
if not tonumber(state[2]) then
  redis.call('HSET', CRON, 'first_seen', now)
  state[2] = now
end
return { state[1], tonumber(state[2]), state[3] and 1 or 0, state[4], now }
