-- include: now queue batches score text job events locks follow ticks endings
--
-- discard(queue, finished, who, ids): deletes ended jobs before their time
--
-- KEYS  1 ns:{q}
-- ARGV  1 whether to delete finished jobs, too: 1 | 0 · 2 who asks, or empty · ids
-- reply per id: 1 deleted · 2 it will be deleted soon: it ended a moment ago, and a repeated enqueue must still find it
--       3 it will be deleted soon anyway: nothing changes
--       0 it is neither failed nor canceled, nor finished if these are to be deleted
--
-- moves failed | canceled | finished -> gone
-- touches failed ticks canceled finished job events

local registries = { ':failed', ':canceled' }
if ARGV[1] == '1' then registries[3] = ':finished' end

local function discard(id)
  local registry, kept_until
  for _, status in ipairs(registries) do
    local score = redis.call('ZSCORE', ROOT .. status, id)
    if score then registry, kept_until = ROOT .. status, tonumber(score) end
  end
  if not registry then return 0 end
  local state = state_of(id)
  local known_until = (state and time_in(state, 'e') or 0) + REMEMBERED
  if known_until > now then
    if kept_until <= known_until then return 3 end
    redis.call('ZADD', registry, whole(known_until), id)
    return 2
  end
  redis.call('ZREM', registry, id)
  delete_jobs({ id })
  return 1
end

-- at maxmemory Redis runs a script whose first write frees memory
redis.call('ZREM', ROOT .. ':failed', '')
local replies = {}
read_events(redis.call('HGET', CONF, 'events'), as_operator(ARGV[2]))
for i = 3, #ARGV do
  replies[i - 2] = discard(ARGV[i])
  if events and (replies[i - 2] == 1 or replies[i - 2] == 2) then events.record('deleted', ARGV[i], '-') end
end
if events then events.write() end
return replies
