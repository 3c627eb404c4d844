-- include: now queue batches score text job events wake ready broken places locks follow ticks endings gaps
--
-- move(queue, target, limit, skip_queued, skip_scheduled): moves the first `limit` waiting jobs to another queue,
-- as effects
--
-- KEYS  1 ns:{q}
-- ARGV  1 name of the other queue · 2 limit · 3, 4 how many of the first ready and scheduled jobs to skip
-- reply {how many run, id, queued | scheduled, … of each moved job}; the job that takes them over 1 MB is the last
--
-- moves held | queue | scheduled -> effects
--       queue | scheduled -> broken     no text, or not a job
-- A job is in the effects before its text is deleted, so an error midway loses none: fsck queues jobs that are in no
-- set.
-- touches queue ticks held again scheduled started job unique children effects broken conf wake

local LARGE_REPLY = 1048576       -- bytes of jobs
local target, limit, bytes, reply = ARGV[1], tonumber(ARGV[2]), 0, {}
-- keys of another type raise an error here, before any write
redis.call('HLEN', ROOT .. ':effects')
redis.call('LLEN', ROOT .. ':effects:' .. target)
redis.call('ZREM', QUEUE, '')
announces = false

-- post_job(id, h, kind, place): the list of the jobs that wait for it moves, too
local function post_job(id, h, kind, place)
  local children, fields = table.concat(redis.call('LRANGE', ROOT .. ':children:' .. id, 0, -1), '\n'), field_list(h)
  post(target, 'move', id, kind, place, '', children, unpack(fields))
  write_posted()
  if h.unique then free_lock(id, h, true) end
  redis.call('DEL', ROOT .. ':children:' .. id)
  delete_jobs({ id })
  for _, field in ipairs(fields) do bytes = bytes + #field end
end

-- move_from(set, kind, first): moves the jobs of the set from that rank on; returns how many
local function move_from(set, kind, first)
  local before = #reply
  if limit <= 0 then return 0 end
  local page = redis.call('ZRANGE', set, first, first + limit - 1, 'WITHSCORES')
  for i = 1, #page, 2 do
    if bytes > LARGE_REPLY then break end
    local id = page[i]
    local h = load_job(id)
    if h then leave_limit(id, h) end
    redis.call('ZREM', set, id)
    if h then
      post_job(id, h, kind, page[i + 1])
      add(reply, id, kind)
    else
      break_job(id)
    end
  end
  local count = (#reply - before) / 2
  limit = limit - count
  return count
end

move_from(HELD, 'queued', 0)
count_gaps(move_from(QUEUE, 'queued', tonumber(ARGV[3])))
move_from(SCHEDULED, 'scheduled', tonumber(ARGV[4]))
if write_ready() then wake() end
local lost = redis.call('ZCOUNT', STARTED, '-inf', now)
return { redis.call('ZCARD', STARTED) - lost, unpack(reply) }
