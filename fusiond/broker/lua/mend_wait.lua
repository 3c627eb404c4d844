-- include: now queue many score text claims job events wake line_up by turns places locks follow tally ends after
--
-- mend_wait(queue, what, who, id, …): puts right what keeps a job that waits for others from going on; fsck has found it.
--
-- KEYS  1 ns:{q}
-- ARGV  1 what · 2 who asks, or empty · 3 id · then
--         ended   4 name of a parent · 5 finished | failed | canceled | missing: how it has ended, which nobody will tell
--         lost    nothing: it is not known any more for whom the job waits
--         circle  4 name of a parent, which waits for the job in the end · 5 a sentence that says so
--         ask     4 queue of a child · 5 the child · 6 the name by which it knows this job: it asks again to be told of the end
-- reply nil; where it is not so any more, nothing changes
--
-- moves deferred -> queue | scheduled | failed
-- touches deferred parents children expiring queue tenants scheduled failed seq conf job claims unique outbox events metrics wake

redis.call('ZREM', QUEUE, '')
local conf = redis.call('HMGET', CONF, 'fair', 'events')
read_turns(conf[1])
read_events(conf[2], asked_by(ARGV[2]))
local what, id = ARGV[1], ARGV[3]
local is_moving = redis.call('HEXISTS', ROOT .. ':leaving', id) + redis.call('HEXISTS', ROOT .. ':arriving', id) > 0
if what == 'ended' then
  parent_ended(id, ARGV[4], ARGV[5])
elseif what == 'lost' and not is_moving and redis.call('EXISTS', PARENTS .. id) == 0 then
  fail_waiting(id, 'PARENT_MISSING', 'it is not known any more for which jobs it waited')
elseif what == 'circle' and redis.call('HEXISTS', PARENTS .. id, 'p ' .. ARGV[4]) == 1 then
  fail_waiting(id, 'PARENT_CIRCLE', ARGV[5])
elseif what == 'ask' then
  add_child(id, ARGV[4], ARGV[5], ARGV[6])
end
write_endings()
if line_up() then wake() end
if events then events.write() end
