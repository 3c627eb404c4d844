-- include: now queue batches score text job events wake ready argument_values turns locks
--
-- requeue(queue, who, ids): queues failed and canceled jobs again, like new ones: with all their attempts, behind their
-- priority. Each begins its next round, the number of which is in its header
--
-- KEYS  1 ns:{q}
-- ARGV  1 who asks, or empty · ids
-- reply per id: 1 moved · 2 it is queued already · 3 another job holds its lock: it stays · 0 neither failed nor
--       canceled
--
-- moves failed | canceled -> queue
--       failed | canceled -> gone    its text is gone, or is not a job
-- touches conf queue seq tenants failed canceled job unique events wake

-- relock(id, h): of the lock that the job needs: key, rule, whether another job holds it
local function relock(id, h)
  local key, rule = lock_of(h.task, h.unique)
  if key then return key, rule, other_holder(key, id) ~= nil end
end

-- next_round(header): the header with the round that begins, in front, where no producer writes; what is not an object
-- stays
local function next_round(header)
  local round, rest = header:match('^{"round":(%d+),?(.*)$')
  rest = rest or header:match('^{(.*)$')
  if not rest then return header end
  return '{"round":' .. whole(math.max(1, count(round)) + 1) .. (rest == '}' and '' or ',') .. rest
end

local function requeue(id)
  local h = load_job(id)
  local key, rule, taken
  if h and h.unique then key, rule, taken = relock(id, h) end
  if taken and (redis.call('ZSCORE', ROOT .. ':failed', id)
    or redis.call('ZSCORE', ROOT .. ':canceled', id)) then return 3 end
  if redis.call('ZREM', ROOT .. ':failed', id) + redis.call('ZREM', ROOT .. ':canceled', id) == 0 then
    return redis.call('ZSCORE', QUEUE, id) and 2 or 0
  end
  if not h then return 0 end
  local place = with_sequence(finite(h.score) or 254 * BAND, redis.call('INCR', SEQ))
  local past, header = { history = h.history }, next_round(h.header or '{}')
  codec.add_to_history(past, 'requeued', '')
  save_job(id, {
    task = h.task, header = header, args = h.args, created_at = h.created_at, queued_at = now,
    last_outcome = 'requeued', last_token = h.last_token, error = h.error, history = past.history, follow = h.follow,
    unique = key and h.unique:gsub(',%d*,', ',,', 1) or nil,
  })
  if key and holder(key) ~= id then take_lock(key, rule, id) end
  make_ready(id, whole(place), h.args)
  write_ready()
  if events then events.record_job('requeued', id, { task = h.task, attempts = 1, header = header }) end
  return 1
end

-- at maxmemory Redis runs a script whose first write frees memory
redis.call('ZREM', QUEUE, '')
local conf = redis.call('HMGET', CONF, 'fair', 'events')
read_turns(conf[1])
read_events(conf[2], as_operator(ARGV[1]))
local replies, moved = {}, false
for i = 2, #ARGV do
  replies[i - 1] = requeue(ARGV[i])
  moved = moved or replies[i - 1] == 1
end
if events then events.write() end
if moved then wake() end
return replies
