-- Runs of flows, each of them in the slot of its flow's queue. (needs now, queue)
-- ns:{q}:flow:<id>       HASH  the run; flow_records.py has the fields. `t <step>`: how many jobs the step has in all
--                              `f <step>`, `x <step>`, `c <step>`: how many of them have finished, failed, were canceled
-- ns:{q}:flow:<id>/ends  HASH  <step>.<number of the job> -> "<round> <f | x | c> <raw result, or why it failed>"
-- ns:{q}:flows           ZSET  run -> the time from which it may be dropped, ms; a run that goes on has none: +inf
-- ns:{q}:advance         ZSET  run that can go a step further -> when somebody is to do so, ms
local can_advance = false         -- a run can, by what this call has done
local FLOW, FLOWS, ADVANCE = ROOT .. ':flow:', ROOT .. ':flows', ROOT .. ':advance'
-- end_of_step(id, step, n, round, letter, payload): a job of a step has ended. What was told before changes nothing, nor does what an
-- earlier round tells late. The last job of a step has the run advanced, and the version changed, so that a state that was worked out
-- without this end is not written.
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
-- drop_runs(limit): forgets runs that ended long ago; their records have expired.
local function drop_runs(limit)
  local gone = redis.call('ZRANGEBYSCORE', FLOWS, '-inf', now, 'LIMIT', 0, limit)
  if #gone > 0 then redis.call('ZREM', FLOWS, unpack(gone)) end
end
