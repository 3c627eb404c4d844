-- include: now queue rate
--
-- pools(ms, pools, actions): takes, renews and frees slots of pools for the attempts of one dispatcher, or says what is
-- free
--
-- KEYS  1 ns:{/pools}
-- ARGV  1 ms until a slot that is not renewed is free again
--       2 how many pools there are, then of each: name, slots or empty, ms from token to token, burst or empty
--       then actions, of three words each: what, who, needs
--         what   free | renew | take | count | wait | show   who  `<token> <job>`, of the first three
--         needs  `<pool>=<slots>=<waiter> …`: the waiter is the name under which it waits if there is too little
-- reply per action: take: the pool of which there is too little, or empty · count, wait: how many times its needs
--       could be taken now · show: of each pool of the file that was published last {name, slots or empty, how many
--       are held, ms since when the first one waits, {waiter, …}} · else 0
--
-- The caller says how many slots a pool has: two callers may have different files.
-- A take gets all its needs or none. Who gets none is noted as waiting, and so is who waits and is told 0: a caller
-- waits for tasks of which there are jobs that it could begin, and only counts if no child is free for them. What a
-- waiter needs is left to it once it has waited for a while, as long as it asks again and again; so who needs much
-- begins when enough of the others have ended.
-- moves nothing
-- touches slots waiting rate conf

local TAKEN, WAITING = ROOT .. ':slots:', ROOT .. ':waiting:'
local SOON, LATE = 1000, 30000    -- ms; when slots are left to a waiter that needs one, or more
local FRESH, GONE = 2500, 15000   -- ms since it asked last: slots are left to it no more; it waits no more
local MOST = 1000000              -- the largest reply of count and wait
local KEPT = ARGV[1]
local ENDS = whole(now + KEPT)
local pools = {}
-- at maxmemory Redis runs a script whose first write frees memory
redis.call('ZREM', TAKEN, '')
for i = 3, 2 + 4 * ARGV[2], 4 do
  local slots, every, burst = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  pools[ARGV[i]] = { slots = slots or math.huge, every = every, burst = burst }
end

-- pool_of(name): what is held, which tokens there are, and who waits
local function pool_of(name)
  local pool = pools[name]
  if pool.used then return pool end
  redis.call('ZREMRANGEBYSCORE', TAKEN .. name, '-inf', whole(now))
  pool.used, pool.tokens, pool.waiters = redis.call('ZCARD', TAKEN .. name), math.huge, {}
  if pool.every then pool.tokens, pool.spent = rates().tokens(RATE .. ':' .. name, pool.every, pool.burst) end
  local said = redis.call('HGETALL', WAITING .. name)
  for i = 1, #said, 2 do
    local since, asked, need, patience = said[i + 1]:match('^(%d+) (%d+) (%d+) (%d+)$')
    since, asked, need = tonumber(since), tonumber(asked), tonumber(need)
    if now - asked > GONE then
      redis.call('HDEL', WAITING .. name, said[i])
    else
      local is_fresh = now - asked <= FRESH
      local is_due = is_fresh and now - since >= tonumber(patience)
      pool.waiters[said[i]] = { since = since, need = need, is_due = is_due, is_fresh = is_fresh }
    end
  end
  return pool
end

-- times(need): how many times it could be taken of what is free, less what is left to those that have waited for longer
local function times(need)
  local pool, waiter = pool_of(need[1]), need[3]
  local slots, tokens, own = pool.slots - pool.used, pool.tokens, pool.waiters[waiter]
  for who, other in pairs(pool.waiters) do
    local is_first = not own or other.since < own.since or other.since == own.since and who < waiter
    if who ~= waiter and other.is_due and is_first then slots, tokens = slots - other.need, tokens - 1 end
  end
  return math.max(0, math.min(math.floor(slots / need[2]), tokens, MOST))
end

-- needs_of(text): {pool, slots, waiter} each
local function needs_of(text)
  local needs = {}
  for name, slots, waiter in text:gmatch('([^ =]+)=(%d+)=(%S+)') do
    needs[#needs + 1] = { name, tonumber(slots), waiter }
  end
  return needs
end

-- members(who, need, score): of the pool's set, one for each slot, each behind its score if there is one
local function members(who, need, score)
  local found = {}
  for n = 1, need do
    found[#found + 1] = score
    found[#found + 1] = who .. ' ' .. n
  end
  return unpack(found)
end

local function keep(name, who, need)
  redis.call('ZADD', TAKEN .. name, members(who, need, ENDS))
  redis.call('PEXPIRE', TAKEN .. name, KEPT)
end

-- note_waiting(needs, only_known): notes who waits, and that it has asked
local function note_waiting(needs, only_known)
  local patience = whole((#needs > 1 or needs[1][2] > 1) and LATE or SOON)
  for _, need in ipairs(needs) do
    local name, slots, waiter = unpack(need)
    local pool = pool_of(name)
    local own = pool.waiters[waiter]
    if own or not only_known then
      own = own or { since = now, need = slots, is_due = false, is_fresh = true }
      pool.waiters[waiter] = own
      local said = whole(own.since) .. ' ' .. whole(now) .. ' ' .. slots .. ' ' .. patience
      redis.call('HSET', WAITING .. name, waiter, said)
      redis.call('PEXPIRE', WAITING .. name, GONE)
    end
  end
end

local actions = {}

function actions.free(who, needs)
  for _, need in ipairs(needs) do redis.call('ZREM', TAKEN .. need[1], members(who, need[2])) end
end

-- without a condition: the attempt runs, so this is true even if Redis has lost its slots
function actions.renew(who, needs)
  for _, need in ipairs(needs) do keep(need[1], who, need[2]) end
end

function actions.take(who, needs)
  -- repeated, since no reply came
  if redis.call('ZSCORE', TAKEN .. needs[1][1], who .. ' 1') then
    actions.renew(who, needs)
    return ''
  end
  for _, need in ipairs(needs) do
    if times(need) < 1 then
      note_waiting(needs)
      return need[1]
    end
  end
  for _, need in ipairs(needs) do
    local name, slots, waiter = unpack(need)
    local pool = pool_of(name)
    keep(name, who, slots)
    pool.used, pool.tokens, pool.waiters[waiter] = pool.used + slots, pool.tokens - 1, nil
    redis.call('HDEL', WAITING .. name, waiter)
    if pool.every then
      pool.spent = pool.spent + pool.every
      rates().spend(RATE .. ':' .. name, pool.spent)
    end
  end
  return ''
end

function actions.count(_, needs)
  local number = MOST
  for _, need in ipairs(needs) do number = math.min(number, times(need)) end
  return number
end

function actions.wait(who, needs)
  local number = actions.count(who, needs)
  note_waiting(needs, number > 0)
  return number
end

function actions.show()
  local found, said = {}, redis.call('HGETALL', ROOT .. ':conf')
  for i = 1, #said, 2 do
    pools[said[i]] = { slots = math.huge }
    local pool, first, waiters = pool_of(said[i]), now, {}
    for waiter, each in pairs(pool.waiters) do
      if each.is_fresh then first, waiters[#waiters + 1] = math.min(first, each.since), waiter end
    end
    found[#found + 1] = { said[i], said[i + 1], pool.used, now - first, waiters }
  end
  return found
end

local reply = {}
for i = 3 + 4 * ARGV[2], #ARGV, 3 do
  reply[#reply + 1] = actions[ARGV[i]](ARGV[i + 1], needs_of(ARGV[i + 2])) or 0
end
return reply
