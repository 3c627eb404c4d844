-- now: epoch ms by the clock of Redis, the one clock that leases and due times are judged by.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
