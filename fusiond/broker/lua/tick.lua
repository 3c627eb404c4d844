-- include: now queue many score wake schedule store
--
-- tick(queue, entry, due, overlap, job): decides on one due moment of a cron entry, once for all daemons.
--
-- KEYS  1 ns:{q}
-- ARGV  1 entry · 2 due, epoch ms · 3 skip | allow · then nothing: a tick that is passed over, or the job as in enqueue.lua, options last
-- reply enqueued · skipped: passed over, or the last tick's job has not ended, or the queue is full · suspended ·
--       taken: this tick, or a later one, was decided before
--
-- moves -> queue | scheduled
-- Each decision advances `last`, so that no second daemon takes the tick again. A clock that goes ahead enqueues nothing early: the
-- job is scheduled for `due`.
-- touches conf queue scheduled seq job cron wake

local CRON = ROOT .. ':cron:' .. ARGV[1]
local due, id = tonumber(ARGV[2]), ARGV[4]
local state = redis.call('HMGET', CRON, 'last', 'first_seen', 'suspended', 'last_job')
local room = tonumber(redis.call('HGET', CONF, 'max_length')) or math.huge
room = room - redis.call('ZCARD', QUEUE) - redis.call('ZCARD', SCHEDULED)

if due <= (tonumber(state[1]) or -1) then return 'taken' end

-- running(id): whether that job has not ended; one that is gone has
local function running(job)
  local h = redis.pcall('HMGET', JOB .. job, 'task', 'ended_at')
  return h[1] and not h[2]
end

local function decide()
  if state[3] then return 'suspended', 'suspended' end
  if not id then return 'skipped', 'passed over' end
  if ARGV[3] == 'skip' and state[4] and running(state[4]) then return 'skipped', 'overlap' end
  if room < 1 then return 'skipped', 'full' end
  return 'enqueued', 'enqueued'
end

local reply, decision = decide()
-- by an operator's hand, or after an AOF was cut: the job of this very tick is there
local fresh = reply == 'enqueued' and redis.call('EXISTS', JOB .. id) == 0
-- before the decision is noted: it raises where `seq` is no number, and the tick is still due then
local seq = fresh and redis.call('INCR', SEQ)
redis.call('HSET', CRON, 'last', due, 'decision', decision, 'first_seen', state[2] or now)
if reply ~= 'enqueued' then return reply end
redis.call('HSET', CRON, 'last_job', id, 'last_enqueued', due)
if not fresh then return reply end
local ready, later_on = {}, {}
store(4, (255 - ARGV[7]) * BAND + seq, ready, later_on)
many('ZADD', QUEUE, ready)
local earliest = schedule(later_on)
if #ready > 0 or earliest then wake() end
return reply
