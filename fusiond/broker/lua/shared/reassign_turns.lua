-- Gives waiting jobs new turns, in pages: if `fair_by` is added or changes, and if jobs have left the ready set without
-- a claim, so that the later ones of their tenants move up. (needs queue, score, batches, job, ready, argument_values,
-- turns)
-- conf `gaps`     how many have left since
-- conf `placing`  the progress, "<by> <step> …". Until the end `fair` is missing: new jobs get their arrivals, so
--                 they are behind all others
--   (nothing)                      not begun
--   apart <arrivals> <next> <top>  from the back, one priority at a time: each job up to <arrivals> gets a number of
--                                  its own, from <next> down
--   turns <score>                  from the front: each job from <score> on gets its turn
-- So a tenant's jobs keep their order at all times, and a claim during this takes first the jobs that have their turns.
-- jobs; in such a ready set each gap causes new turns, in a larger one a quarter must have left
local SMALL_SET = 100

local reassigned_turns            -- during the reassignment: notes the turns that are claimed
-- reassign_turns(fair, placing, gaps, limit): the first three are fields of conf; returns whether more than `limit`
-- jobs are left to do
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

  -- begin(): reserves a number above all arrivals for each waiting job
  local function begin()
    local count = redis.call('ZCARD', QUEUE)
    local last = redis.call('INCRBY', SEQ, count)
    redis.call('DEL', TENANTS)
    redis.call('HDEL', CONF, 'fair', 'gaps')
    return whole(last - count), whole(last), TOP
  end

  -- spread_out(arrivals, next, top): returns the progress; nil: done
  local function spread_out(arrivals, next, top)
    while limit > 0 and next > arrivals do
      local last = redis.call('ZREVRANGEBYSCORE', QUEUE, top, 0, 'WITHSCORES', 'LIMIT', 0, 1)[2]
      if not last then return nil end
      local first, moved = last - last % BAND, {}
      local page = redis.call('ZREVRANGEBYSCORE', QUEUE, whole(first + arrivals), whole(first),
        'LIMIT', 0, math.min(limit, next - arrivals))
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

  -- give_turns(place): returns the progress; nil: done
  local function give_turns(place)
    while limit > 0 do
      local page = redis.call('ZRANGEBYSCORE', QUEUE, place, TOP, 'WITHSCORES', 'LIMIT', 0, math.min(limit, PAGE))
      local moved = {}
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

  -- next_pages(): at most `limit` jobs; returns whether there are more
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
