-- The short path of an enqueue of one job, if the job is new, small and has no options, and the queue has no maximum
-- length, turns or events. Most calls are like that. Such a call creates none of the functions below. (needs queue,
-- score, text, claim_on_enqueue)
local function store_single()
  local id, task, args = ARGV[1], ARGV[2], ARGV[3]
  if not id or ARGV[5] ~= '0' or ARGV[6] or #args >= LARGE then return false end
  local conf = redis.call('HMGET', CONF, 'max_length', 'fair', 'events')
  if conf[1] or conf[2] or conf[3] then return false end
  local score = (255 - ARGV[4]) * BAND + redis.call('INCR', SEQ)
  local waiting = read_waiting()
  local token, left = open_reservation(waiting)
  if token then return claim_on_enqueue(token, left, id, task, args, score, '') end
  if not redis.call('SET', JOB .. id, new_text(task, '', args, ''), 'NX') then return false end
  redis.call('ZADD', QUEUE, score, id)
  if waiting then wake() end
  return true
end
if store_single() then return '0' end
