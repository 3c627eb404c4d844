-- include: now queue many score wake line_up store
--
-- tick(queue, entry, ticks): stores the jobs of ticks that a cron entry has decided on; a repeat, however late, stores nothing.
--
-- KEYS  1 ns:{q}
-- ARGV  1 entry · 2 task · 3 args · 4 priority · 5 expires, ms from now, or empty · 6 ms by which a tick may be late, or empty: any
--       then pairs, oldest first: a tick, epoch ms · ms by which its job is delayed
-- reply {a digit per tick, the newest tick of this entry that has a job in this queue, or 0}
--       0 stored · 1 a job with its id was there · 2 too late · 3 the queue is full · 4 answered before
--
-- moves -> queue | scheduled
-- `ticks` remembers the newest tick of each entry: its job may have ended, and been dropped, before a scheduler that was stopped asks
-- again. A clock that goes ahead enqueues nothing early: the job is scheduled for its tick.
-- touches conf queue scheduled seq job ticks wake

local TICKS = ROOT .. ':ticks'
local entry, task, args, expires, patience = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[5]), tonumber(ARGV[6])
local known = redis.call('HGET', TICKS, entry) or ''
local newest, with_job = known:match('^(%d+) (%d+)$')
newest, with_job = newest or '0', with_job or '0'
local room = tonumber(redis.call('HGET', CONF, 'max_length')) or math.huge
room = room - redis.call('ZCARD', QUEUE) - redis.call('ZCARD', SCHEDULED)

-- judge(tick): what becomes of it
local function judge(tick)
  if tonumber(tick) <= tonumber(newest) then return '4' end
  if patience and now - tick > patience then return '2' end
  -- by an operator's hand, or after an AOF was cut
  if redis.call('EXISTS', JOB .. 'cron:' .. entry .. ':' .. tick) == 1 then return '1' end
  if room < 1 then return '3' end
  room = room - 1
  return '0'
end

local replies, fresh = {}, {}
for i = 7, #ARGV, 2 do
  local reply = judge(ARGV[i])
  replies[#replies + 1] = reply
  if reply == '0' then fresh[#fresh + 1] = i end
end
-- before anything is written: it raises where `seq` is no number
local seq = #fresh > 0 and redis.call('INCRBY', SEQ, #fresh) - #fresh
for place, at in ipairs(fresh) do
  local id, due = 'cron:' .. entry .. ':' .. ARGV[at], math.max(ARGV[at], now) + ARGV[at + 1]
  local fields = expires and { 'expires_at', now + expires } or {}
  store(id, task, args, (255 - ARGV[4]) * BAND + seq + place, due, fields)
end
for i, reply in ipairs(replies) do
  local tick = ARGV[5 + 2 * i]
  if reply ~= '4' then newest = tick end
  if reply == '0' or reply == '1' then with_job = tick end
end
redis.call('HSET', TICKS, entry, newest .. ' ' .. with_job)
if line_up() then wake() end
return { table.concat(replies), with_job }
