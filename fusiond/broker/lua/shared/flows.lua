-- Runs of flows, each of them in the slot of its flow's queue. (needs now, queue)
-- ns:{q}:flow:<id>       HASH  the run; flow_records.py has the fields. `t <step>`: how many jobs the step has
--                              `f <step>`, `x <step>`, `c <step>`: how many of them finished, failed, were canceled
-- ns:{q}:flow:<id>/ends  HASH  <step>.<number of the job> -> "<round> <f | x | c> <raw result, or why it failed>"
-- ns:{q}:flows           ZSET  run -> the time from which it may be deleted, ms; a run that has not ended: +inf
-- ns:{q}:advance         ZSET  run that is to be advanced -> when, ms
local can_advance = false         -- this call has made it possible to advance a run
local FLOW, FLOWS, ADVANCE = ROOT .. ':flow:', ROOT .. ':flows', ROOT .. ':advance'
-- end_of_step(id, step, n, round, letter, payload): a job of a step has ended. A repeat changes nothing, nor does the
-- end of a job of an earlier round. After the last job of a step the run is to be advanced, and its version is changed,
-- so that nobody writes a state that was computed without this end.
local function end_of_step(id, step, n, round, letter, payload)
  local run, field = FLOW .. id, step .. '.' .. n
  local total = tonumber(redis.call('HGET', run, 't ' .. step))
  local known = redis.call('HGET', run .. '/ends', field)
  if not total or known and tonumber(known:match('^%d+')) >= tonumber(round) then return end
  payload = round .. ' ' .. letter .. ' ' .. payload
  redis.call('HINCRBY', run, letter .. ' ' .. step, 1)
  redis.call('HSET', run .. '/ends', field, payload)
  local ends = redis.call('HMGET', run, 'f ' .. step, 'x ' .. step, 'c ' .. step)
  if (ends[1] or 0) + (ends[2] or 0) + (ends[3] or 0) < total then return end
  redis.call('HINCRBY', run, 'version', 1)
  redis.call('ZADD', ADVANCE, now, id)
  can_advance = true
end
-- drop_runs(limit): deletes the entries of runs that ended long ago; their records have expired
local function drop_runs(limit)
  local gone = redis.call('ZRANGEBYSCORE', FLOWS, '-inf', now, 'LIMIT', 0, limit)
  if #gone > 0 then redis.call('ZREM', FLOWS, unpack(gone)) end
end
