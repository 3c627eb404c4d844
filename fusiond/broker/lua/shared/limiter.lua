-- What a claim does about the limits of tasks: takes places, holds jobs, and releases those that may run. (needs now,
-- queue, score, job, batches, rate, ready, argument_values, places, endings, rescue, held_tasks)
local limits                      -- task -> {by, max_running, every, burst}; nil: no task of the queue has a limit

-- make_limiter(): created once in a call, and only if a task has a limit, or jobs are held for their tasks: creating
-- functions takes a script as long as using them
local function make_limiter()
  local rate = rates()
  -- ms; how often a key without a free place is checked, as a script may have failed to release a job
  local RECHECK = 30000
  local RELEASED = 100            -- held jobs of a key in one check
  local MOST_REPAIRED = 1000      -- a key with more places is not searched for places that no running job has
  local rooms = {}                -- key -> places and tokens that are left in this call

  -- key_of(task, args, kwargs): the key of a job of a task with a limit. Raises a reason
  local function key_of(task, args, kwargs)
    local names = table.concat(limits[task].by, ',')
    return names == '' and task or task .. ' ' .. names .. '=' .. argument_values().of(names, args, kwargs)
  end
  -- key_of_body(task, body): the same for arguments as they are stored
  local function key_of_body(task, body)
    local names = table.concat(limits[task].by, ',')
    local text = argument_values().of_body(names, body)
    return names == '' and task or task .. ' ' .. names .. '=' .. text
  end

  -- limit_of(key): the limit that has such keys; nil: the limit is gone, or has another `by` now
  local function limit_of(key)
    local task, names = key:match('^(%S+) ?([^=]*)')
    local limit = limits and limits[task]
    return limit and table.concat(limit.by, ',') == names and limit or nil
  end

  -- room_of(key, limit): how many more jobs of the key may begin
  local function room_of(key, limit)
    local room = rooms[key]
    if not room then
      local places = limit.max_running and limit.max_running - redis.call('HLEN', PLACES .. key) or math.huge
      room = { places = places, tokens = math.huge }
      if limit.every then room.tokens, room.spent = rate.tokens(RATE .. ':' .. key, limit.every, limit.burst) end
      rooms[key] = room
    end
    return room
  end

  local function is_full(room) return room.places < 1 or room.tokens < 1 end

  -- next_check(room, limit): when a job that is held now may begin
  local function next_check(room, limit)
    if room.tokens < 1 then return now + rate.until_next(room.spent, limit.every, limit.burst) end
    return now + RECHECK
  end

  -- take_place(id, key, limit, token): an attempt of the job begins; returns its field `limit`
  local function take_place(id, key, limit, token)
    local room = room_of(key, limit)
    room.places, room.tokens = room.places - 1, room.tokens - 1
    if limit.every then
      room.spent = room.spent + limit.every
      rate.spend(RATE .. ':' .. key, room.spent)
    end
    if limit.max_running then redis.call('HSET', PLACES .. key, id, token) end
    return limit.max_running and key or nil
  end

  -- hold(id, h, key, score): queued -> held
  local function hold(id, h, key, score)
    if h.limit and h.limit ~= key then leave_limit(id, h) end
    h.limit, h.score = key, score
    save_job(id, h)
    redis.call('ZADD', HELD, score, id)
    redis.call('ZADD', HELD_BY .. key, score, id)
    if events then events.record_job('held', id, h) end
    local limit = limits[h.task]
    redis.call('ZADD', AGAIN, 'LT', whole(next_check(room_of(key, limit), limit)), 'k' .. key)
    watch_expiry(id, h)
  end

  -- expire_held(id): held -> failed, if it has expired
  local function expire_held(id)
    redis.call('ZREM', AGAIN, 'x' .. id)
    local score = redis.call('ZSCORE', HELD, id)
    local h = score and load_job(id)
    local expires = h and finite(h.expires_at)
    if not expires then return end
    if expires > now then
      redis.call('ZADD', AGAIN, whole(expires), 'x' .. id)
    else
      leave_limit(id, h)
      fail_unclaimed(id, h, 'EXPIRED', expiry_message(h), score)
    end
  end

  -- repair_places(key, room): frees the places of jobs that do not run
  local function repair_places(key, room)
    if redis.call('HLEN', PLACES .. key) > MOST_REPAIRED then return end
    for _, id in ipairs(redis.call('HKEYS', PLACES .. key)) do
      if not redis.call('ZSCORE', STARTED, id) then
        redis.call('HDEL', PLACES .. key, id)
        room.places = room.places + 1
      end
    end
  end

  -- release_held(key, limit): held -> queued, as many as may begin, RELEASED at a time; without a limit all of them
  local function release_held(key, limit)
    local allowed, again = math.huge, now
    if limit then
      local room = room_of(key, limit)
      if room.places < 1 then repair_places(key, room) end
      allowed = math.max(0, math.min(room.places, room.tokens))
      if allowed <= RELEASED then again = next_check(room, limit) end
      if limit.every and allowed > 0 then again = math.min(again, now + math.ceil(allowed * limit.every)) end
    end
    for _ = 1, math.min(allowed, RELEASED) do
      if not release_next(key) then break end
    end
    if redis.call('EXISTS', HELD_BY .. key) == 1 then
      redis.call('ZADD', AGAIN, whole(again), 'k' .. key)
    else
      redis.call('ZREM', AGAIN, 'k' .. key)
    end
  end

  -- recheck(limit): does what `again` says is due
  local function recheck(limit)
    local due = redis.call('ZRANGEBYSCORE', AGAIN, '-inf', now, 'LIMIT', 0, limit)
    for _, entry in ipairs(due) do
      local name = entry:sub(2)
      if entry:sub(1, 1) == 'x' then expire_held(name) else release_held(name, limit_of(name)) end
    end
    return #due == limit
  end

  return { key_of = key_of, key_of_body = key_of_body, room_of = room_of,
    is_full = is_full, take_place = take_place, hold = hold, recheck = recheck }
end
local limiter                     -- what make_limiter() has made
local function read_limits(text, held_names)
  if text then limits = cjson.decode(text) end
  if text or held_names then limiter = make_limiter() end
end
