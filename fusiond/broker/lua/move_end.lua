-- include: now queue many score wake line_up ends moved
--
-- move_end(queue, jobs): jobs that have left the other queue wait here from now on.
--
-- KEYS  1 ns:{q}
-- ARGV  per job: id, nonce
-- reply how many
--
-- moves deferred -> queue        behind its priority
--       deferred -> scheduled    for the time that it had
--       deferred -> canceled     a cancel was asked while it moved
-- touches deferred arriving queue seq scheduled canceled job wake

redis.call('ZREM', QUEUE, '')
local moved = 0
for i = 1, #ARGV, 2 do
  local id = ARGV[i]
  local kind, place = move_of(ARRIVING, id, ARGV[i + 1])
  if kind then
    redis.call('HDEL', ARRIVING, id)
    if redis.call('ZSCORE', DEFERRED, id) then
      local before = kind == 'queued' and place or finite(redis.call('HGET', JOB .. id, 'score')) or 0
      redis.call('HSET', JOB .. id, 'last_outcome', 'moved')
      undefer(id, kind, later(before, redis.call('INCR', SEQ)), place)
      moved = moved + 1
    end
  end
end
if line_up() then wake() end
return moved
