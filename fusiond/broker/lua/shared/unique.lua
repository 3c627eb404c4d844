-- How a new job gets its lock. (needs now, queue, score, job, ready, store, places, locks, endings)
-- A request is "<rule>,<on_conflict>,<max_wait, ms>,<values>"; max_wait 0: no limit.
-- make_locker(): created once in a call, and only if a job is unique
local function make_locker()
  local REPLACED_KEPT = 86400000  -- ms, at most 1 day: frequent calls may replace many jobs
  local decisions_by_lock = {}    -- lock -> the decision about a new job of this call
  local DEFERRED = ROOT .. ':deferred'
  -- waiting_set(id, h): the set that a waiting job is in, and its score; nil: it does not wait
  local function waiting_set(id, h)
    if not h or h.ended_at or h.token then return nil end
    if redis.call('EXISTS', ROOT .. ':parents:' .. id) == 1 then return DEFERRED, redis.call('ZSCORE', DEFERRED, id) end
    for _, set in ipairs({ QUEUE, SCHEDULED, HELD }) do
      local score = redis.call('ZSCORE', set, id)
      if score then return set, score end
    end
  end
  -- decide_lock(id, task, wanted): the decision for `store`: how a new job gets its lock; or nil, the job that holds
  -- the lock, and whether that is an error. A running job is not replaced. Writes nothing
  local function decide_lock(id, task, wanted)
    local rule, on_conflict, max_wait, values = wanted:match('^(%w+),(%l+),(%d+),(.*)$')
    local key = ROOT .. ':unique:' .. task .. ':' .. values
    local decision = { id = id, key = key, rule = rule, values = values, max_wait = tonumber(max_wait) }
    local earlier = decisions_by_lock[key]
    if earlier then
      if on_conflict ~= 'replace' then return nil, earlier.id, on_conflict == 'refuse' end
      earlier.replaced_by, decision.since, decision.makes_room = id, earlier.since or now, true
      return decision
    end
    local other, h = other_holder(key, id)
    if not other then return decision end
    local set, score = waiting_set(other, on_conflict == 'replace' and h)
    if not set then return nil, other, on_conflict == 'refuse' end
    local _, _, since = lock_of(h.task, h.unique or '')
    decision.other, decision.h, decision.set, decision.score = other, h, set, score
    decision.since = since or finite(h.created_at) or now
    decision.makes_room = set ~= DEFERRED
    return decision
  end
  -- replace(id, h, score, by): ends a waiting job
  local function replace(id, h, score, by)
    cancel_waiting(id, h, math.min(failure_ttl(h), REPLACED_KEPT), score,
      'REPLACED', 'job ' .. by .. ' replaced it before it began')
  end
  -- store_with_lock(decision, …): as `store`, and takes the lock. A job that replaces a ready job keeps the position of
  -- that job: otherwise frequent calls would delay it without end
  local function store_with_lock(decision, task, args, score, due, header, expires_at, follow, flow)
    local id = decision.id
    if decision.since and decision.max_wait > 0 then due = math.min(due, decision.since + decision.max_wait) end
    local keeps_score
    if decision.other then
      local ready = (decision.set == QUEUE or decision.set == HELD) and finite(decision.score)
      keeps_score = ready and due <= now and ready < score and with_sequence(ready, 0) == with_sequence(score, 0)
      if keeps_score then
        score = ready
      elseif turns and decision.set == QUEUE then
        redis.call('HINCRBY', CONF, 'gaps', 1)
      end
      leave_limit(decision.other, decision.h)
      redis.call('ZREM', decision.set, decision.other)
      replace(decision.other, decision.h, ready and decision.score or decision.h.score or 0, id)
    end
    local unique = decision.rule .. ',' .. (decision.since and whole(decision.since) or '') .. ',' .. decision.values
    if not decision.replaced_by then
      take_lock(decision.key, decision.rule, id)
      return store(id, task, args, score, due, header, expires_at, unique, follow, keeps_score, flow)
    end
    local texts, h = {}, { task = task, args = args, header = header, created_at = now, expires_at = expires_at,
      unique = unique, flow = flow }
    append_job(texts, id, h)
    if events then events.record_enqueued(id, task, header, due, args) end
    write_texts(texts)
    replace(id, h, whole(score), decision.replaced_by)
  end

  return { decide_lock = decide_lock, store = store_with_lock, decisions_by_lock = decisions_by_lock }
end
