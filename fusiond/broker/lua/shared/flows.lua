-- Runs of flows, each of them in the slot of its flow's queue. (needs now, queue)
-- ns:{q}:flow:<id>       HASH  the run; flow_records.py has the fields. `t <step>`: how many jobs the step has
--                              `f <step>`, `x <step>`, `c <step>`: how many of them finished, failed, were canceled
--                              `s <step>`: "<first begin, ms> <last end, ms> <ms that the slowest took> <its number>"
-- ns:{q}:flow:<id>/ends  HASH  <step>.<number of the job> -> "<round> <ending> <raw result, or why it failed>"
--                              ending: f | x | c and, if it has begun, "<begin, ms>+<ms that it took>"
-- ns:{q}:flows           ZSET  run -> the time from which it may be deleted, ms; a run that has not ended: +inf
-- ns:{q}:advance         ZSET  run that is to be advanced -> when, ms
local can_advance = false         -- this call has made it possible to advance a run
local FLOW, FLOWS, ADVANCE = ROOT .. ':flow:', ROOT .. ':flows', ROOT .. ':advance'
-- with_times(span, n, ending): the span of a step with the times of its job `n`
local function with_times(span, n, ending)
  local began, took = ending:match('^.(%d+)%+(%d+)$')
  if not began then return span or '' end
  local first, last, most, slowest = (span or ''):match('^(%d+) (%d+) (%d+) (%d+)$')
  if not first or tonumber(took) > tonumber(most) then most, slowest = took, n end
  first, last = math.min(first or began, began), math.max(last or 0, began + took)
  return table.concat({ whole(first), whole(last), most, slowest }, ' ')
end
-- end_of_step(id, step, n, round, ending, payload): a job of a step has ended; ending: its letter and, if it has begun,
-- its times, as in `ends`. A repeat changes nothing, nor does the end of a job of an earlier round. After the last job
-- of a step the run is to be advanced, and its version is changed, so that nobody writes a state that was computed
-- without this end.
local function end_of_step(id, step, n, round, ending, payload)
  local run, field, letter = FLOW .. id, step .. '.' .. n, ending:sub(1, 1)
  local total, f, x, c, span = unpack(redis.call('HMGET', run, 't ' .. step, 'f ' .. step, 'x ' .. step, 'c ' .. step,
    's ' .. step))
  local known = redis.call('HGET', run .. '/ends', field)
  if not total or known and tonumber(known:match('^%d+')) >= tonumber(round) then return end
  local ends = ({ f = f, x = x, c = c })[letter] or 0
  redis.call('HSET', run, letter .. ' ' .. step, ends + 1, 's ' .. step, with_times(span, n, ending))
  redis.call('HSET', run .. '/ends', field, round .. ' ' .. ending .. ' ' .. payload)
  if (f or 0) + (x or 0) + (c or 0) + 1 < tonumber(total) then return end
  redis.call('HINCRBY', run, 'version', 1)
  redis.call('ZADD', ADVANCE, now, id)
  can_advance = true
end
-- drop_runs(limit): deletes the entries of runs that ended long ago; their records have expired
local function drop_runs(limit)
  local gone = redis.call('ZRANGEBYSCORE', FLOWS, '-inf', now, 'LIMIT', 0, limit)
  if #gone > 0 then redis.call('ZREM', FLOWS, unpack(gone)) end
end
