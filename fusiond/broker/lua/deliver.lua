-- include: now queue batches score text job events wake ready argument_values turns store room broken places locks
-- include: follow tally ticks endings unique flows after
--
-- deliver(queue, source, entries): carries out the entries that another queue has for this one, each only
-- once
--
-- KEYS  1 ns:{q}
-- ARGV  1 name of the other queue · then entries as in the reply of effects.lua
-- reply {the highest number that was carried out, 1 if this queue has effects now, 1 if runs of flows
--        can be advanced}
--
-- moves -> queue       the job of a callback, or of a step of a flow, behind its priority
--       deferred -> queue | scheduled | failed    enough of its parents have ended well, or too few still can
--       queue | held | scheduled | deferred -> canceled    it replaces another one with the same lock
--       -> queue | scheduled    a moved job: behind its priority, or for the time that it had
--       -> effects    a moved job whose id or lock another job has: it goes back, with its old score
--       -> failed    CONFLICT: it has come back, and another job has its lock
-- max_length does not count here. `taken` has the highest number of each other queue. An entry is carried out as a
-- whole or not at all: one that is invalid raises before it has written anything, and is kept under `broken`, so that
-- the next ones need not wait. A key of the queue with another type would stop an entry midway. So the types are
-- checked first, and the entries stay in the effects until a person has renamed or deleted the key.
-- touches taken ticks conf queue tenants held scheduled canceled seq job unique deferred parents children expiring
--         failed effects events metrics wake

redis.call('ZREM', QUEUE, '')
local TAKEN, source = ROOT .. ':taken', ARGV[1]
local highest = tonumber(redis.call('HGET', TAKEN, source)) or 0
announces = false
local conf = redis.call('HMGET', CONF, 'fair', 'events')
read_turns(conf[1])
read_events(conf[2])
local locker, stored_ids, must_wake = nil, {}, false
local kinds = {}

-- notify_existing(id, flow): the job of a step exists, since its run was deleted before it, or Redis has lost data. If
-- it has ended, its run is told, which would wait for ever otherwise
local function notify_existing(id, flow)
  local h = load_job(id)
  local status = h and ended_status(id, h)
  if status then notify_run(status, { flow = flow, result = h.result, error = h.error }) end
end
-- enqueue(id, task, args, priority, expires, lock, …): a new job. expires: ms; 0: never. lock: as in shared/unique.lua,
-- or empty. header, follow and flow: these fields, empty or nil if the job has none
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
  -- an earlier entry may have stored or released the job that this one replaces
  must_wake = write_ready() or must_wake
  local decision, other = locker.decide_lock(id, task, lock)
  if not decision then
    local err = failure('CONFLICT', 'job ' .. other .. ' is the same by `unique`')
    if flow then notify_run('failed', { flow = flow, error = err }) end
    return redis.call('HINCRBY', CONF, 'skipped', 1)
  end
  locker.store(decision, task, args, score, 0, header, expires_at, follow, flow)
  write_stored()
end

-- move_lock(id, h): takes the lock of a moved job in this queue; returns the job that has it, or nil
local function move_lock(id, h)
  local key, rule = lock_of(h.task, h.unique or '')
  -- a job that has begun has freed this lock
  if not key or rule == 'started' and h.started_at then return nil end
  local other, left = other_holder(key, id), tonumber(rule) and (finite(h.created_at) or now) + rule - now
  if not other and (not left or left > 0) then take_lock(key, left and whole(left) or rule, id) end
  return other
end
-- move(id, kind, place, back, children, field, value, …): a waiting job of the other queue. kind: queued | scheduled.
-- place: its score or due time. back: `back` if it left this queue and the other one refused it. children: lines of
-- ns:{q}:children:<id>
function kinds.move(id, kind, place, back, children, ...)
  local words, h, texts, is_back = { ... }, {}, {}, back == 'back'
  for i = 1, #words, 2 do h[words[i]] = words[i + 1] end
  write_stored()
  local is_taken, there = redis.call('EXISTS', JOB .. id) == 1, load_job(id)
  if there and there.task == h.task and there.args == h.args then
    -- both become one: jobs that waited for the moved one wait for the existing one
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

-- step_end(run, step, n, round, ending, payload): a job of a step has ended
kinds.step_end = end_of_step

-- after(id, queue, child, name): the job `child` of that queue waits for the job `id` of this one · parent_ended(id,
-- name, status)
kinds.after, kinds.parent_ended = add_child, parent_ended

local SORTED_SETS = 'scheduled held tenants deferred expiring started failed canceled advance'
for name in SORTED_SETS:gmatch('%S+') do redis.call('ZCARD', ROOT .. ':' .. name) end
local has_counter = tonumber(redis.call('GET', SEQ) or 0)
if not has_counter then return redis.error_reply('WRONGTYPE the counter of arrivals is not a number') end
local taken = highest
for i = 2, #ARGV do
  local number, entry = ARGV[i]:match('^(%d+) (.*)$')
  number = tonumber(number) or 0
  if number > taken then
    local good, what = pcall(cmsgpack.unpack, entry)
    what = good and type(what) == 'table' and what or { '', 'it cannot be read' }
    local kind = kinds[what[1]]
    local done, reason = pcall(kind or error, unpack(what, 2))
    if not done then store_broken('effects of ' .. source .. ': ' .. tostring(reason), entry) end
    taken = number
  end
end
write_endings()
if write_ready() or must_wake then wake() end
-- last: if an error precedes this, the entries come again, and those already carried out are recognized
if taken > highest then redis.call('HSET', TAKEN, source, whole(taken)) end
if events then events.write() end
return { whole(taken), has_posted and 1 or 0, can_advance and 1 or 0 }
