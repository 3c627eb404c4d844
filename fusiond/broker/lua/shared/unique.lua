-- How a new job gets its lock. (needs now, queue, score, job, line_up, store, places, locks, ends)
-- What is wanted is "<rule>,<on_conflict>,<max_wait, ms>,<values>"; max_wait 0: no limit.
-- unique_jobs(): made once for a call, and only where a job is unique
local function unique_jobs()
  local REPLACED_KEPT = 86400000    -- ms, 1 day at most: whatever is called often may replace many
  local locking = {}                -- lock -> the way in which a new job of this call gets it
  local DEFERRED = ROOT .. ':deferred'
  -- waits_in(id, h): the set in which a job waits, and its score; nil where it waits in none
  local function waits_in(id, h)
    if not h or h.ended_at or h.token then return nil end
    if redis.call('EXISTS', ROOT .. ':parents:' .. id) == 1 then return DEFERRED, redis.call('ZSCORE', DEFERRED, id) end
    for _, set in ipairs({ QUEUE, SCHEDULED, HELD }) do
      local score = redis.call('ZSCORE', set, id)
      if score then return set, score end
    end
  end
  -- look_at_lock(id, task, wanted): the way in which a new job gets its lock, for `store`; or nil, the job that holds it, and whether the
  -- new one is refused. A job that runs is not replaced. Writes nothing
  local function look_at_lock(id, task, wanted)
    local rule, on_conflict, max_wait, values = wanted:match('^(%w+),(%l+),(%d+),(.*)$')
    local key = ROOT .. ':unique:' .. task .. ':' .. values
    local way = { id = id, key = key, rule = rule, values = values, max_wait = tonumber(max_wait) }
    local twin = locking[key]
    if twin then
      if on_conflict ~= 'replace' then return nil, twin.id, on_conflict == 'refuse' end
      twin.replaced_by, way.since, way.makes_room = id, twin.since or now, true
      return way
    end
    local other, h = rival(key, id)
    if not other then return way end
    local set, score = waits_in(other, on_conflict == 'replace' and h)
    if not set then return nil, other, on_conflict == 'refuse' end
    local _, _, since = lock_of(h.task, h.unique or '')
    way.other, way.h, way.set, way.score, way.since = other, h, set, score, since or finite(h.created_at) or now
    way.makes_room = set ~= DEFERRED
    return way
  end
  -- replace(id, h, score, by): ends a job that waited
  local function replace(id, h, score, by)
    cancel_waiting(id, h, math.min(failure_ttl(h), REPLACED_KEPT), score, 'REPLACED', 'job ' .. by .. ' replaced it before it began')
  end
  -- store_it(way, …): as `store`, and takes the lock. A job that takes the place of one that is ready keeps that place: otherwise calls that
  -- come often would keep it from its turn
  local function store_it(way, task, args, score, due, header, expires_at, follow, flow)
    local id = way.id
    if way.since and way.max_wait > 0 then due = math.min(due, way.since + way.max_wait) end
    local has_place
    if way.other then
      local ready = (way.set == QUEUE or way.set == HELD) and finite(way.score)
      has_place = ready and due <= now and ready < score and later(ready, 0) == later(score, 0)
      if has_place then
        score = ready
      elseif turns and way.set == QUEUE then
        redis.call('HINCRBY', CONF, 'gaps', 1)
      end
      withdraw(way.other, way.h)
      redis.call('ZREM', way.set, way.other)
      replace(way.other, way.h, ready and way.score or way.h.score or 0, id)
    end
    local unique = way.rule .. ',' .. (way.since and whole(way.since) or '') .. ',' .. way.values
    if not way.replaced_by then
      take_lock(way.key, way.rule, id)
      return store(id, task, args, score, due, header, expires_at, unique, follow, has_place, flow)
    end
    local texts, h = {}, { task = task, args = args, header = header, created_at = now, expires_at = expires_at, unique = unique, flow = flow }
    list_new(texts, id, h)
    if events then events.enqueued(id, task, header, due, args) end
    write(texts)
    replace(id, h, whole(score), way.replaced_by)
  end

  return { look_at_lock = look_at_lock, store = store_it, locking = locking }
end
