-- count_gaps(count): that many jobs have left the ready set without a claim. In a queue with `fair_by` later jobs of
-- their tenants may move up: claims assign the turns again (reassign_turns.lua). (needs queue)
local function count_gaps(count)
  if count == 0 then return end
  local fair = redis.call('HMGET', CONF, 'fair', 'placing')
  if fair[1] or fair[2] then redis.call('HINCRBY', CONF, 'gaps', count) end
end
