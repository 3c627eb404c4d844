-- include: now queue many score text claims job events wake line_up by turns places locks follow tally ends moved
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
-- touches conf deferred arriving queue seq tenants scheduled canceled job claims unique events metrics wake

redis.call('ZREM', QUEUE, '')
local conf = redis.call('HMGET', CONF, 'fair', 'events')
read_turns(conf[1])
read_events(conf[2])
local moved = 0
for i = 1, #ARGV, 2 do
  local id = ARGV[i]
  local kind, place = move_of(ARRIVING, id, ARGV[i + 1])
  if kind then
    redis.call('HDEL', ARRIVING, id)
    if redis.call('ZSCORE', DEFERRED, id) then
      local h = load(id)
      local before = kind == 'queued' and place or h and finite(h.score) or 0
      if h then
        h.last_outcome, h.limit = 'moved', nil
        save(id, h)
      end
      if events and h then events.job('moved', id, h) end
      undefer(id, h, kind, enter_row, later(before, redis.call('INCR', SEQ)), place)
      moved = moved + 1
    end
  end
end
write_endings()
if line_up() then wake() end
if events then events.write() end
return moved
