-- include: now queue score odd
--
-- mend_keys(queue): looks again, sets keys of another type aside under a name of their own, and counts arrivals on from the last.
--
-- KEYS  1 ns:{q}
-- reply {key without its root, kind, detail, …}: what was wrong
--
-- moves nothing; the jobs that a key set aside should have held are in no set, which is mended one by one
-- touches queue scheduled started finished failed canceled deferred inbox broken conf seq ticks leaving arriving

local ROUNDS = 2                  -- a counter that was set aside is missing then

redis.call('ZREM', ROOT .. ':none', '')
local replies = {}
for _ = 1, ROUNDS do
  for _, found in ipairs(odd_keys()) do
    local key, kind, detail = unpack(found)
    if kind == 'wrong-type' then
      redis.call('RENAME', ROOT .. ':' .. key, ROOT .. ':' .. key .. ':broken:' .. now)
    else
      redis.call('SET', SEQ, detail:match('%d+$'))
    end
    for _, word in ipairs(found) do replies[#replies + 1] = word end
  end
end
return replies
