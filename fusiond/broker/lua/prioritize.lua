-- include: now queue batches score text job events wake ready argument_values turns places status gaps
--
-- prioritize(queue, who, priority, ids): gives jobs that wait another priority
--
-- KEYS  1 ns:{q}
-- ARGV  1 who asks, or empty · 2 priority, 0 to 255 · ids
-- reply per id: 1 changed · 2 it has that priority already · 3 it runs · 4 it has ended · 0 missing
--
-- moves nothing; a ready job keeps its arrival, or gets its tenant's next turn in that priority; a held one keeps it
-- for when it is ready; a scheduled or deferred one arrives behind the others of that priority
-- touches conf queue seq tenants held scheduled deferred job events

-- at maxmemory Redis runs a script whose first write frees memory
redis.call('ZREM', QUEUE, '')
local conf, priority = redis.call('HMGET', CONF, 'fair', 'placing', 'events'), tonumber(ARGV[2])
local has_turns, gaps = conf[1] or conf[2], 0
read_turns(conf[1])
read_events(conf[3], as_operator(ARGV[1]))
local WAITS_IN, RUNS, ENDED = { queued = true, held = true, scheduled = false, deferred = false }, 3, 4

-- new_score(score, args): args: of a job that has a turn, if the queue has any; nil: another job
local function new_score(score, args)
  local first = (255 - priority) * BAND
  if not (has_turns and args) then return whole(first + score % BAND) end
  -- its turn in the other priority says nothing here
  score = whole(first + redis.call('INCR', SEQ))
  return turns and turns.assign(score, args) or score
end

local function prioritize(id)
  local status, place = status_of(id)
  local h, is_placed = status and load_job(id), WAITS_IN[status]
  if not h then return 0 end
  if is_placed == nil then return status == 'started' and RUNS or ENDED end
  local score = finite(is_placed and place or h.score) or 254 * BAND
  if priority_of(score) == priority then return 2 end
  score = new_score(score, is_placed and h.args or nil)
  if is_placed then redis.call('ZADD', set_of(status), 'XX', score, id) end
  if status == 'held' then redis.call('ZADD', HELD_BY .. (h.limit or '?' .. h.task), 'XX', score, id) end
  if status == 'queued' then gaps = gaps + 1 end
  -- the text of a ready job that was never claimed has no score
  if h.score or not is_placed then
    h.score = score
    save_job(id, h)
  end
  if events then events.record_job('prioritized', id, h, ' mpriority+' .. priority) end
  return 1
end

local replies = {}
for i = 3, #ARGV do replies[i - 2] = prioritize(ARGV[i]) end
write_ready()
count_gaps(gaps)
if events then events.write() end
return replies
