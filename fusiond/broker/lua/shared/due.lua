-- promote(limit): moves scheduled jobs that are due to the ready set, behind the others of their priority; returns
-- whether there may be more. (needs now, queue, score, job, batches, ready, broken)
local function promote(limit)
  local first = tonumber(redis.call('ZRANGE', SCHEDULED, 0, 0, 'WITHSCORES')[2])
  if not first or first > now then return false end
  local due = redis.call('ZRANGEBYSCORE', SCHEDULED, '-inf', now, 'LIMIT', 0, limit)
  local seq = redis.call('INCRBY', SEQ, #due) - #due
  for i, id in ipairs(due) do
    local h = load_job(id)
    if not h or not finite(h.score) then
      break_job(id)
    else
      h.queued_at = now
      save_job(id, h)
      make_ready(id, whole(with_sequence(finite(h.score), seq + i)), h.args)
      if events then events.record_job('queued', id, h, ' mit+is+due') end
    end
  end
  call_in_batches('ZREM', SCHEDULED, due)
  return #due == limit
end
