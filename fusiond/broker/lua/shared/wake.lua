-- A claim that came back short has noted in WAKE that its dispatcher waits, for so many ms: 1, or the token under which an enqueue may claim a job
-- for it, and when it left that, epoch ms.
local WAITS = 15000
-- wake(): tell the dispatchers that wait for this queue, if any.
local function wake()
  if redis.call('DEL', WAKE) == 1 then redis.pcall('PUBLISH', WAKE, 'ready') end
end
