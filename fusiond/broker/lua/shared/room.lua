-- room(): how many more jobs may wait in the queue. Held jobs wait, too. The same command also reads `fair_by`, which
-- tasks are elsewhere, and whether the file asks for events. (needs queue, turns, events)
local elsewhere                   -- JSON: task with a limit -> its queue; nil: all are in this queue
local function room()
  local conf = redis.call('HMGET', CONF, 'max_length', 'limits', 'fair', 'elsewhere', 'events', 'held_tasks')
  read_turns(conf[3])
  read_events(conf[5])
  elsewhere = conf[4]
  local most = tonumber(conf[1])
  if not most then return math.huge end
  return most - redis.call('ZCARD', QUEUE) - redis.call('ZCARD', SCHEDULED)
    - ((conf[2] or conf[6]) and redis.call('ZCARD', ROOT .. ':held') or 0)
end
