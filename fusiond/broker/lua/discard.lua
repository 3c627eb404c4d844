-- include: now queue many ends
--
-- discard(queue, ids): drops failed and canceled jobs before their time is over.
--
-- KEYS  1 ns:{q}
-- ARGV  ids
-- reply per id: 1 dropped · 2 it will be dropped soon: it ended a moment ago, and a repeated enqueue must still find its id
--       0 it is neither failed nor canceled
--
-- moves failed | canceled -> gone
-- touches failed canceled job

local function discard(id)
  local registry
  for _, status in ipairs({ ':failed', ':canceled' }) do
    if redis.call('ZSCORE', ROOT .. status, id) then registry = ROOT .. status end
  end
  if not registry then return 0 end
  local ended = redis.pcall('HGET', JOB .. id, 'ended_at')
  local known_until = (type(ended) == 'string' and tonumber(ended) or 0) + REMEMBERED
  if known_until > now then
    redis.call('ZADD', registry, known_until, id)
    return 2
  end
  redis.call('ZREM', registry, id)
  redis.call('UNLINK', JOB .. id)
  return 1
end

-- at maxmemory a script passes whose first write frees memory
redis.call('ZREM', ROOT .. ':failed', '')
local replies = {}
for i, id in ipairs(ARGV) do replies[i] = discard(id) end
return replies
