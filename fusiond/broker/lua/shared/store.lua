-- store(id, task, args, score, due, header, expires_at, unique, follow, keeps_score, flow): a new job, ready with its
-- score or scheduled for its time. header: may be empty; unique, follow, flow: these fields, or nil; keeps_score: it
-- gets the score that another job had. `write_ready` writes it. (needs now, queue, text, events, ready)
local function store(id, task, args, score, due, header, expires_at, unique, follow, keeps_score, flow)
  if events then events.record_enqueued(id, task, header, due, args) end
  local words, is_large = expires_at and ' x' .. whole(expires_at - now) or '', #args >= LARGE
  if unique then words = words .. ' y' .. escape(unique) end
  if follow then words = words .. ' f' .. follow end
  if flow then words = words .. ' g' .. escape(flow) end
  if due > now then
    -- the job keeps the score for its priority; it gets another sequence number when it is due
    words = words .. ' s' .. whole(score)
    add(scheduled, due, id)
  elseif keeps_score then
    return_to_ready(id, score)
  else
    make_ready(id, score, args)
  end
  if is_large then
    add(stored, JOB .. id .. ARGS, args)
    words, args = ',' .. #args .. words, ''
  end
  add(stored, JOB .. id, new_text(task, header, args, words))
end
