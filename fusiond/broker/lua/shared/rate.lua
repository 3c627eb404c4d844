-- How many jobs may begin in a period: GCRA, by the clock of Redis. (needs now, queue)
-- A key holds one time, ms: when the tokens that were spent will have come back at the even rate. It is never later
-- than a burst from now. So neither a clock that is put back nor a smaller burst stops jobs for longer.
local RATE = ROOT .. ':rate'
local rates_of_call
-- rates(): created once in a call, and only if there is a rate
local function rates()
  if rates_of_call then return rates_of_call end
  local MOMENT = time[1] * 1000 + time[2] / 1000
  local SHORTEST_PAUSE = 25       -- ms; if tokens come fast, a dispatcher comes back for several at once
  local function spend(key, spent)
    redis.call('SET', key, ('%.6f'):format(spent), 'PX', whole(math.max(1, math.ceil(spent - MOMENT))))
  end
  -- tokens(key, every, burst): how many jobs may begin now · the time that the key holds
  local function tokens(key, every, burst)
    local spent, most = math.max(tonumber(redis.call('GET', key)) or 0, MOMENT), MOMENT + burst * every
    if spent > most + 1 then
      spent = most
      spend(key, spent)
    end
    return math.max(0, math.floor(burst - (spent - MOMENT) / every + 1e-3)), spent
  end
  -- until_next(spent, every, burst): ms until the next request is worth it
  local function until_next(spent, every, burst)
    return math.ceil(math.max(spent - MOMENT - (burst - 1) * every, math.min(SHORTEST_PAUSE, burst * every / 2)))
  end
  rates_of_call = { tokens = tokens, spend = spend, until_next = until_next }
  return rates_of_call
end
