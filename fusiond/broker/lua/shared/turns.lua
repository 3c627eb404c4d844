-- Fairness: in a queue with `fair_by` the tenants take turns within each priority. (needs queue, score, batches, ready,
-- argument_values)
-- A tenant is the jobs with the same values of these arguments; the jobs that lack one of them are a tenant, too. The
-- sequence number in a job's score is its turn: the turn after its tenant's last one, or the current turn, if that is
-- later. So a tenant has one job in each turn. A turn is never above the number of arrivals so far, as each arrival
-- adds one turn at most. So turns stay in the band of their priority, and a job with its arrival as sequence number is
-- behind all others.
-- conf `fair`     the arguments, separated by commas
-- ns:{q}:tenants  ZSET  "<priority>" -> the current turn: that of the job claimed last, or the next one if no other job
--                       has it
--                       "<priority> <values>" -> the last turn of that tenant; both are scores
-- Tenants whose last turn is before the current one are deleted.
local TENANTS = ROOT .. ':tenants'
-- make_turns(by): created once in a call, and only if the queue has tenants
local function make_turns(by)
  local known, changed, claimed_up_to = {}, {}, {}  -- member -> score or false · {score, member, …} · member -> score
  local values = argument_values()

  -- tenant_of(args): the values; empty: the job lacks one, or one has another type
  local function tenant_of(args)
    local good, found = pcall(values.of_body, by, args)
    return good and found or ''
  end

  local function set(member, score)
    known[member] = score
    add(changed, whole(score), member)
  end

  -- assign(score, args): the turn of a job, as a score; score: the one that its arrival gives it
  local function assign(score, args)
    score = tonumber(score)
    local first = score - score % BAND
    local priority = whole(255 - first / BAND)
    local tenant = priority .. ' ' .. tenant_of(args)
    if known[tenant] == nil then
      local scores = redis.call('ZMSCORE', TENANTS, priority, tenant)
      if known[priority] == nil then known[priority] = finite(scores[1]) or false end
      known[tenant] = finite(scores[2]) or false
    end
    if not known[priority] then set(priority, score) end
    local last = known[tenant] or first - 1
    local turn = math.min(math.max(first, known[priority], last + 1), score)
    if turn > last then set(tenant, turn) end
    return whole(turn)
  end

  -- note_claimed(popped, count): a claim has taken the first `count` words of {id, score, …}
  local function note_claimed(popped, count)
    local before
    for i = count, 2, -2 do
      local score = finite(popped[i])
      local priority = score and math.floor(score / BAND)
      if priority and priority ~= before then
        before, priority = priority, whole(255 - priority)
        claimed_up_to[priority] = math.max(claimed_up_to[priority] or 0, score)
      end
    end
  end

  -- write(): writes the noted turns, deletes the tenants that are behind. If no job of the current turn is left, the
  -- next one begins
  local function write()
    call_in_batches('ZADD', TENANTS, changed)
    for priority, score in pairs(claimed_up_to) do
      local turn = whole(score)
      if redis.call('ZCOUNT', QUEUE, turn, turn) == 0 then turn = whole(score + 1) end
      redis.call('ZADD', TENANTS, 'GT', turn, priority)
      redis.call('ZREMRANGEBYSCORE', TENANTS, whole(score - score % BAND), '(' .. turn)
    end
    changed, claimed_up_to = {}, {}
  end

  return { assign = assign, tenant_of = tenant_of, note_claimed = note_claimed, write = write }
end
local function read_turns(by)
  if by and not turns then turns = make_turns(by) end
end
