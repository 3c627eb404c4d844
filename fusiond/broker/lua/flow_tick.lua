-- include: now queue score text job events flows ticks
--
-- flow_tick(queue, entry, ticks): starts the runs of ticks that a cron entry has decided on; a repeat starts nothing
--
-- KEYS  1 ns:{q}
-- ARGV  1 entry · 2 ms by which a tick may be late; empty: any · 3 how many words of fields, then name and value of
--       each · then of each tick, oldest first: the tick, epoch ms · ms by which its run is delayed · its inputs
-- reply as of `tick`: {of each: 0 started · 1 a run with its id was there · 2 too late · 4 answered before;
--        the newest tick that has a run}
--
-- touches conf ticks flow flows advance events

local entry, patience, count = ARGV[1], tonumber(ARGV[2]), 2 * ARGV[3]
local newest, with_run = (redis.call('HGET', TICKS, entry) or ''):match('^(%d+) (%d+)$')
newest, with_run = newest or '0', with_run or '0'
-- start(tick, delay, inputs): the digit of the tick
local function start(tick, delay, inputs)
  if tonumber(tick) <= tonumber(newest) then return '4' end
  newest = tick
  if patience and now - tick > patience then return '2' end
  local id = 'cron:' .. entry .. ':' .. tick
  with_run = tick
  if redis.call('EXISTS', FLOW .. id) == 1 then return '1' end
  redis.call('HSET', FLOW .. id, 'version', 1, 'created_at', whole(now), 'inputs', inputs, unpack(ARGV, 4, 3 + count))
  redis.call('ZADD', FLOWS, '+inf', id)
  redis.call('ZADD', ADVANCE, math.max(tick, now) + delay, id)
  if events then events.record('flow.started', '-', '-', ' o' .. escape(id)) end
  return '0'
end
local replies = {}
read_events(redis.call('HGET', CONF, 'events'))
for i = 4 + count, #ARGV, 3 do
  local reply = start(ARGV[i], ARGV[i + 1], ARGV[i + 2])
  replies[#replies + 1] = reply
  if reply ~= '4' then note_tick(entry, ARGV[i], reply .. 'r') end
end
redis.call('HSET', TICKS, entry, newest .. ' ' .. with_run)
if events then events.write() end
return { table.concat(replies), with_run }
