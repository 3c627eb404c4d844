-- Waiting jobs get new turns, in pages: where `fair_by` is switched on or changes, and where jobs have left the row without a claim, so that
-- the later ones of their tenants move up. (needs queue, score, batches, job, ready, argument_values, turns)
-- conf `gaps`     how many have left since
-- conf `placing`  how far it is, "<by> <step> …"; `fair` is missing until it is done, so that new jobs get their arrivals as places, behind all others
--   (nothing)               it has yet to begin
--   apart <arrivals> <next> <top>   from the back, a priority at a time: each job up to <arrivals> gets a place of its own, the next one down
--   turns <place>           from the front: each job from <place> on gets its turn, which is never behind the place that it has
-- So a tenant's jobs stay in their order all the while, and a claim in between takes those first that have their turns.
local SMALL_SET = 100             -- jobs; such a row is placed again for each gap, a longer one if a quarter has left

local reassigned_turns                   -- where the row is being placed again: who counts the turns that are claimed meanwhile
-- reassign_turns(fair, placing, gaps, limit): these fields of conf; whether there is more of it than so many jobs
local function reassign_turns(fair, placing, gaps, limit)
  if gaps and not placing then
    local waiting = redis.call('ZCARD', QUEUE)
    if waiting <= SMALL_SET or gaps * 4 >= waiting then placing = fair end
  end
  if not placing then
    read_turns(fair)
    return false
  end
  local by = placing:match('^%S+')
  local TOP = whole(256 * BAND)
  local new_turns = make_turns(by)

  -- begin(): the numbers of the places that the waiting jobs get: from `arrivals`, below which they are now
  local function begin()
    local count = redis.call('ZCARD', QUEUE)
    local last = redis.call('INCRBY', SEQ, count)
    redis.call('DEL', TENANTS)
    redis.call('HDEL', CONF, 'fair', 'gaps')
    return whole(last - count), whole(last), TOP
  end

  -- spread_out(arrivals, next, top): how far it is now; nil: it is done
  local function spread_out(arrivals, next, top)
    while limit > 0 and next > arrivals do
      local last = redis.call('ZREVRANGEBYSCORE', QUEUE, top, 0, 'WITHSCORES', 'LIMIT', 0, 1)[2]
      if not last then return nil end
      local first, moved = last - last % BAND, {}
      local page = redis.call('ZREVRANGEBYSCORE', QUEUE, whole(first + arrivals), whole(first), 'LIMIT', 0, math.min(limit, next - arrivals))
      for _, id in ipairs(page) do
        add(moved, whole(first + next), id)
        next = next - 1
      end
      call_in_batches('ZADD', QUEUE, moved)
      limit = limit - math.max(#page, 1)
      if #page == 0 then top = whole(first - 1) end
    end
    if next > arrivals then return whole(arrivals) .. ' ' .. whole(next) .. ' ' .. top end
  end

  -- give_turns(place): the same
  local function give_turns(place)
    while limit > 0 do
      local page, moved = redis.call('ZRANGEBYSCORE', QUEUE, place, TOP, 'WITHSCORES', 'LIMIT', 0, math.min(limit, PAGE)), {}
      if #page == 0 then return nil end
      for i, text in ipairs(texts_of(page, 1, #page)) do
        local id, score = page[2 * i - 1], page[2 * i]
        local h = text and with_args(id, decode(text))
        local turn = h and new_turns.assign(score, h.args) or score
        if turn ~= score then add(moved, turn, id) end
      end
      call_in_batches('ZADD', QUEUE, moved)
      place, limit = whole(page[#page] + 1), limit - #page / 2
    end
    return place
  end

  -- next_pages(): as many as the limit says; whether there are more
  local function next_pages()
    local arrivals, next, top = placing:match(' apart (%d+) (%d+) (%d+)$')
    local place = placing:match(' turns (%d+)$')
    if not place then
      if not arrivals then arrivals, next, top = begin() end
      local rest = spread_out(tonumber(arrivals), tonumber(next), top)
      if rest then
        redis.call('HSET', CONF, 'placing', by .. ' apart ' .. rest)
        return true
      end
    end
    place = give_turns(place or '0')
    new_turns.write()
    if place then
      redis.call('HSET', CONF, 'placing', by .. ' turns ' .. place)
      return true
    end
    redis.call('HDEL', CONF, 'placing')
    redis.call('HSET', CONF, 'fair', by)
    turns = new_turns
    return false
  end

  reassigned_turns = new_turns
  return next_pages()
end
