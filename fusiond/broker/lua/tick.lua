-- include: now queue batches score text job events wake ready argument_values turns store room places locks follow
-- include: tally ticks endings unique
--
-- tick(queue, entry, ticks): stores the jobs of ticks that a cron entry has decided on; a repeat stores nothing
--
-- KEYS  1 ns:{q}
-- ARGV  1 entry · 2 task · 3 args · 4 priority · 5 expires, ms from now, or empty · 6 ms by which a tick may be late;
--       empty: any · 7 how the job is unique, as in shared/unique.lua, or empty · 8, 9 its callbacks: the field
--       `follow`, and JSON; or empty
--       then pairs, oldest first: a tick, epoch ms · ms by which its job is delayed
-- reply {a digit per tick, the newest tick of this entry that has a job in this queue, or 0}
--       0 stored · 1 a job with its id was there · 2 too late · 3 the queue is full · 4 answered before
--       5 another job holds its lock
--
-- moves -> queue | scheduled
--       queue | held | scheduled | deferred -> canceled    the job of a tick replaces it
-- `ticks` has the newest tick of each entry: its job may have ended and been deleted when a scheduler that was stopped
-- asks again. If the clock is ahead, no job begins early: it is scheduled for its tick.
-- touches conf queue tenants held scheduled canceled seq job unique ticks events metrics wake

local entry, task, args, expires, patience = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[5]), tonumber(ARGV[6])
local known = redis.call('HGET', TICKS, entry) or ''
local newest, with_job = known:match('^(%d+) (%d+)$')
newest, with_job = newest or '0', with_job or '0'
local follow, header = ARGV[8] ~= '' and ARGV[8] or nil, ARGV[9] ~= '' and '{"follow":' .. ARGV[9] .. '}' or ''
local left = room()

local locker = ARGV[7] ~= '' and make_locker()
local decisions = {}              -- tick -> lock decision
-- judge(tick): its digit of the reply
local function judge(tick)
  if tonumber(tick) <= tonumber(newest) then return '4' end
  if patience and now - tick > patience then return '2' end
  -- Redis may have lost data, or an operator may have enqueued it
  local id, decision = 'cron:' .. entry .. ':' .. tick, nil
  if redis.call('EXISTS', JOB .. id) == 1 then return '1' end
  if locker then
    decision = locker.decide_lock(id, task, ARGV[7])
    if not decision then return '5' end
  end
  if not (decision and decision.makes_room) then
    if left < 1 then return '3' end
    left = left - 1
  end
  if decision then decisions[tick], locker.decisions_by_lock[decision.key] = decision, decision end
  return '0'
end

local SKIPPED = { ['2'] = 'deadline', ['3'] = 'the queue is full', ['5'] = 'another job holds its lock' }
-- record_tick(tick, reply): its event
local function record_tick(tick, reply)
  local id = 'cron:' .. entry .. ':' .. tick
  if reply == '0' then
    events.record('cron.tick', id, task, ' o' .. escape(entry))
  elseif SKIPPED[reply] then
    events.record('cron.skipped', id, task, ' o' .. escape(entry) .. ' m' .. escape(SKIPPED[reply]))
  end
end
local replies, to_store = {}, {}
for i = 10, #ARGV, 2 do
  local reply = judge(ARGV[i])
  replies[#replies + 1] = reply
  if reply == '0' then to_store[#to_store + 1] = i end
end
-- before any other write: this raises if `seq` is not a number
local seq = #to_store > 0 and redis.call('INCRBY', SEQ, #to_store) - #to_store
for place, at in ipairs(to_store) do
  local id, due = 'cron:' .. entry .. ':' .. ARGV[at], math.max(ARGV[at], now) + ARGV[at + 1]
  local decision, expires_at = decisions[ARGV[at]], expires and now + expires
  local score = (255 - ARGV[4]) * BAND + seq + place
  if decision then
    locker.store(decision, task, args, score, due, header, expires_at, follow)
  else
    store(id, task, args, score, due, header, expires_at, nil, follow)
  end
end
for i, reply in ipairs(replies) do
  local tick = ARGV[8 + 2 * i]
  if reply ~= '4' then
    newest = tick
    note_tick(entry, tick, reply)
  end
  if reply == '0' or reply == '1' then with_job = tick end
end
redis.call('HSET', TICKS, entry, newest .. ' ' .. with_job)
if locker then write_endings() end
if events then
  for i, reply in ipairs(replies) do record_tick(ARGV[8 + 2 * i], reply) end
  events.write()
end
if write_ready() then wake() end
return { table.concat(replies), with_job }
