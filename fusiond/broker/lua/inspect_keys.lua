-- include: queue score odd
--
-- inspect_keys(queue): which keys of the queue are none that a verb could work with.
--
-- KEYS  1 ns:{q}
-- reply {key without its root, kind, detail, …}
--
-- moves nothing
-- touches queue scheduled started finished failed canceled deferred inbox broken conf seq ticks leaving arriving

local replies = {}
for _, found in ipairs(odd_keys()) do
  for _, word in ipairs(found) do replies[#replies + 1] = word end
end
return replies
