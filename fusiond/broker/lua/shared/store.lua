-- store(id, task, args, score, due, fields): writes a new job, and has it ready at its score or scheduled for its time.
-- (needs now, queue, line_up)
local function store(id, task, args, score, due, fields)
  if due > now then
    -- the score waits in the hash for its priority; the place in the row is given when the job comes due
    add(fields, 'score', score)
    add(later_on, due, id)
  else
    add(ready, score, id)
  end
  redis.call('HSET', JOB .. id, 'task', task, 'args', args, 'created_at', now, unpack(fields))
end
