-- wake(): tell the dispatchers that wait for this queue, if any; a claim that came back short has set the flag.
local function wake()
  if redis.call('DEL', WAKE) == 1 then redis.call('PUBLISH', WAKE, 'ready') end
end
