-- now: epoch ms by the clock of Redis, the one clock that leases and due times are judged by.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- whole(number): a whole number as text. Redis formats a number that a command is given with %.17g, each time: for what many commands
-- of a script are given, once is enough.
local function whole(number) return string.format('%.0f', number) end
