-- include: now queue batches score text job events wake ready argument_values turns store room broken places locks follow tally endings unique flows after
--
-- deliver(queue, source, entries): does what the outbox of another queue has for this one; what was taken before is not done again.
--
-- KEYS  1 ns:{q}
-- ARGV  1 name of the other queue · then entries as outbox.lua gives them
-- reply {the highest number that was taken from there, 1 if there is something in the outbox of this queue now, 1 if runs of flows can go on}
--
-- moves -> queue       the job of a callback, or of a step of a flow, behind its priority
--       deferred -> queue | scheduled | failed    enough of its parents have ended well, or not enough can any more
--       queue | held | scheduled | deferred -> canceled    it replaces another one of the same lock
--       -> queue | scheduled    a job that was moved here: behind its priority, or for the time that it had
--       -> outbox    one that was moved here, and whose id or lock another job has: it goes back, to its old place
--       -> failed    CONFLICT: it has come back, and its lock is another job's by now
-- The queue's max_length does not count. `taken` holds the highest number of each other queue. What an entry does, it does as a whole or not
-- at all: an entry that cannot be carried out raises before it has written anything, and is kept under `store_broken`, since what is behind it must
-- not wait for it. A key of the queue that is of another type would stop an entry midway; so that is looked at first, and the entries stay in
-- the outbox until a person has renamed or deleted the key.
-- touches taken conf queue tenants held scheduled canceled seq job unique deferred parents children expiring failed outbox events metrics wake

redis.call('ZREM', QUEUE, '')
local TAKEN, source = ROOT .. ':taken', ARGV[1]
local highest = tonumber(redis.call('HGET', TAKEN, source)) or 0
announces = false
local conf = redis.call('HMGET', CONF, 'fair', 'events')
read_turns(conf[1])
read_events(conf[2])
local locker, stored_ids, must_wake = nil, {}, false
local kinds = {}

-- notify_existing(id, flow): the job of a step is there already, since its run was dropped before it, or its queue came back with less. If it has ended,
-- its run would wait for ever
local function notify_existing(id, flow)
  local h = load_job(id)
  local status = h and ended_status(id, h)
  if status then notify_run(status, { flow = flow, result = h.result, error = h.error }) end
end
-- enqueue(id, task, args, priority, expires, lock, …): a new job; expires, ms: 0: it does not; lock: as shared/unique.lua says, or empty. What
-- follows is empty, or not there, where it has none: header, follow and flow, these fields
function kinds.enqueue(id, task, args, priority, expires, lock, header, follow, flow)
  header, follow, flow = header or '', follow ~= '' and follow or nil, flow ~= '' and flow or nil
  if not (id and task and args and tonumber(priority)) then error('it has too few words', 0) end
  if stored_ids[id] then return end
  if redis.call('EXISTS', JOB .. id) == 1 then return flow and notify_existing(id, flow) end
  local score, expires_at = (255 - priority) * BAND + redis.call('INCR', SEQ), expires ~= '0' and now + expires or nil
  stored_ids[id] = true
  if events and id:sub(1, 3) == 'cb-' then events.record('callback', id, task) end
  if lock == '' then return store(id, task, args, score, 0, header, expires_at, nil, follow, nil, flow) end
  locker = locker or make_locker()
  -- an earlier entry may have had the job stored, or let it run, that this one replaces
  must_wake = write_ready() or must_wake
  local decision, other = locker.decide_lock(id, task, lock)
  if not decision then
    if flow then notify_run('failed', { flow = flow, error = failure('CONFLICT', 'job ' .. other .. ' is the same by `unique`') }) end
    return redis.call('HINCRBY', CONF, 'skipped', 1)
  end
  locker.store(decision, task, args, score, 0, header, expires_at, follow, flow)
  write_stored()
end

-- move_lock(id, h): takes the lock that a moved job holds here; nil, or the job that has it
local function move_lock(id, h)
  local key, rule = lock_of(h.task, h.unique or '')
  -- what has begun has freed its lock, and takes it no more
  if not key or rule == 'started' and h.started_at then return nil end
  local other, left = other_holder(key, id), tonumber(rule) and (finite(h.created_at) or now) + rule - now
  if not other and (not left or left > 0) then take_lock(key, left and whole(left) or rule, id) end
  return other
end
-- move(id, kind, place, back, children, field, value, …): a job that waited in the other queue; kind: queued | scheduled; place: its score, or when it
-- is due; back: `back` where it left this queue and the other one did not take it; children: lines of ns:{q}:children:<id>
function kinds.move(id, kind, place, back, children, ...)
  local words, h, texts, is_back = { ... }, {}, {}, back == 'back'
  for i = 1, #words, 2 do h[words[i]] = words[i + 1] end
  write_stored()
  local is_taken, there = redis.call('EXISTS', JOB .. id) == 1, load_job(id)
  if there and there.task == h.task and there.args == h.args then
    -- the two become one: jobs that waited for the one that came now wait for the one that is there
    for queue, child, name in children:gmatch('([^/\n]+)/([^ \n]+) ([^\n]+)') do add_child(id, queue, child, name) end
    return
  end
  if is_back and is_taken then error('job ' .. id .. ' came back, and another job has its id', 0) end
  local other = is_taken and id or move_lock(id, h)
  if other and not is_back then return post(source, 'move', id, kind, place, 'back', children, ...) end
  for child in children:gmatch('[^\n]+') do redis.call('RPUSH', ROOT .. ':children:' .. id, child) end
  if other then
    h.unique = nil
    fail_deferred(id, h, 'CONFLICT', 'job ' .. other .. ' got its lock while it moved')
  elseif kind == 'scheduled' then
    add(scheduled, place, id)
  elseif is_back then
    return_to_ready(id, place)
  else
    make_ready(id, whole(with_sequence(tonumber(place), redis.call('INCR', SEQ))), h.args)
  end
  if not is_back then
    h.last_outcome = 'moved'
    if events then events.record_job('moved', id, h) end
  end
  append_job(texts, id, h)
  write_texts(texts)
end

-- step_end(run, step, n, round, letter, payload): a job of a step has ended
kinds.step_end = end_of_step

-- after(id, queue, child, name): the job `child` of that queue waits for the job here · parent_ended(id, name, status): a parent has ended
kinds.after, kinds.parent_ended = add_child, parent_ended

for _, name in ipairs({ 'scheduled', 'held', 'tenants', 'deferred', 'expiring', 'started', 'failed', 'canceled', 'advance' }) do
  redis.call('ZCARD', ROOT .. ':' .. name)
end
if not tonumber(redis.call('GET', SEQ) or 0) then return redis.error_reply('WRONGTYPE the counter of arrivals is not a number') end
local taken = highest
for i = 2, #ARGV do
  local number, entry = ARGV[i]:match('^(%d+) (.*)$')
  number = tonumber(number) or 0
  if number > taken then
    local good, what = pcall(cmsgpack.unpack, entry)
    what = good and type(what) == 'table' and what or { '', 'it cannot be read' }
    local kind = kinds[what[1]]
    local done, reason = pcall(kind or error, unpack(what, 2))
    if not done then store_broken('outbox of ' .. source .. ': ' .. tostring(reason), entry) end
    taken = number
  end
end
write_endings()
if write_ready() or must_wake then wake() end
-- last: what came before is done, or is done when the entries come again
if taken > highest then redis.call('HSET', TAKEN, source, whole(taken)) end
if events then events.write() end
return { whole(taken), has_posted and 1 or 0, can_advance and 1 or 0 }
