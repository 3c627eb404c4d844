-- now: epoch ms by the clock of Redis. Only this clock decides about leases and due times.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- whole(number): a whole number as text. Redis formats each number that a command gets with %.17g, each time. For a
-- number that many commands of a script get, doing it once is enough.
local function whole(number) return string.format('%.0f', number) end
