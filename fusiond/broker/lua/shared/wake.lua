-- A claim that got fewer jobs than it asked for has noted in WAKE that its dispatcher waits, for so many ms. The value
-- is 1, or the token for a job that an enqueue claims for the dispatcher, and when the claim left the token,
-- epoch ms.
local WAITS = 15000
-- wake(): wakes the dispatchers that wait for this queue
local function wake()
  if redis.call('DEL', WAKE) == 1 then redis.pcall('PUBLISH', WAKE, 'ready') end
end
