-- include: now queue batches score text job events wake ready places locks follow tally ticks endings gaps
--
-- cancel(queue, id, who): ends a job that waits, asks for the end of one that runs.
--
-- KEYS  1 ns:{q}
-- ARGV  1 id · 2 who asks, or empty
-- reply canceled · asked: it runs; its dispatcher learns of it with the next renew, which a message on `wake` causes
--       ended: it had ended before · missing
--
-- moves queue | held | scheduled | deferred -> canceled
--       held -> queue    the next job of its limit
-- A finish that arrives before the dispatcher has killed the job wins.
-- touches conf ticks queue held again scheduled deferred job unique canceled events metrics wake

redis.call('ZREM', QUEUE, '')
local id = ARGV[1]
read_events(redis.call('HGET', CONF, 'events'), as_operator(ARGV[2]))
local h = load_job(id)
if not h then return 'missing' end
if h.ended_at then return 'ended' end
if h.token or type(redis.pcall('ZSCORE', STARTED, id)) == 'string' then
  h.cancel = failure_ttl(h)
  save_job(id, h)
  redis.pcall('PUBLISH', WAKE, 'cancel')
  if events then
    events.record_job('cancel.asked', id, h)
    events.write()
  end
  return 'asked'
end
local score = redis.call('ZSCORE', QUEUE, id) or redis.call('ZSCORE', ROOT .. ':held', id) or h.score or 0
cancel_waiting(id, h, failure_ttl(h), score)
if redis.call('ZREM', QUEUE, id) == 1 then
  count_gaps(1)
else
  redis.call('ZREM', SCHEDULED, id)
  redis.call('ZREM', ROOT .. ':deferred', id)
end
write_endings()
if write_ready() then wake() end
if events then events.write() end
return 'canceled'
