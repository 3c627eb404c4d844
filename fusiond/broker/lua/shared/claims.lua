-- claims(): claims of many jobs; what follows is made once for a call, and only where it is used. (needs now, queue, score)
-- A claim of many jobs does not write the texts of those that were never claimed before. What it would write there is stored once, under its
-- token, in ns:{q}:claims:
--   <token>        "<when, epoch ms> <their priority> <what their `limit` says, or nothing>"
--   <token> jobs   two lines for each job, its id and its score
--   <token> left   how many of them still have the text that they were enqueued with
-- So a job in `started` with such a text runs, and its claim has its token and all else. What takes a job out of `started` writes its text, and
-- whatever writes the text first completes it by the claim, and makes `left` smaller. At 0 the claim is deleted.
local function noted_claims()
  local CLAIMS, JOBS, LEFT = ROOT .. ':claims', ' jobs', ' left'
  local known, scores = {}, {}      -- token -> as `of` · token -> {id -> score}
  local tokens                      -- of all claims

  -- of(token): {at, priority, limit}; false: there is none
  local function of(token)
    if known[token] == nil then
      local about = redis.pcall('HGET', CLAIMS, token)
      local at, its, limit = (type(about) == 'string' and about or ''):match('^(%d+) (%-?%d+) (.*)$')
      known[token] = at and { at = tonumber(at), priority = its, limit = limit ~= '' and limit or nil } or false
    end
    return known[token]
  end

  -- note(token, limit, jobs): stores a claim, made now; `jobs`: {id, score, …} in the order of the row. Whether it is stored: not if their
  -- priorities differ, if there is one of this token, or if the key is of another type
  local function note(token, limit, jobs)
    local its = priority_of(jobs[2])
    if priority_of(jobs[#jobs]) ~= its or token:find('%s') or of(token) then return false end
    local about = whole(now) .. ' ' .. its .. ' ' .. (limit or '')
    local noted = redis.pcall('HSET', CLAIMS, token, about, token .. JOBS, table.concat(jobs, '\n'), token .. LEFT, #jobs / 2)
    return type(noted) == 'number'
  end

  -- jobs_of(token): an iterator over its jobs: id, score
  local function jobs_of(token)
    local jobs = redis.pcall('HGET', CLAIMS, token .. JOBS)
    return (type(jobs) == 'string' and jobs or ''):gmatch('([^\n]+)\n(%d+)')
  end

  -- begun_by(token): an iterator over the ids of its jobs. The claim is deleted once each has a text of its own; then all started jobs are looked through
  local function begun_by(token)
    if of(token) then return jobs_of(token) end
    local mark, ids = 't' .. word(token) .. ' ', {}
    for _, id in ipairs(redis.call('ZRANGE', STARTED, 0, -1)) do
      if redis.pcall('GETRANGE', JOB .. id, 0, #mark - 1) == mark then ids[#ids + 1] = id end
    end
    local n = 0
    return function()
      n = n + 1
      return ids[n]
    end
  end

  -- score_in(token, id): the place that it had; nil: that claim does not have it
  local function score_in(token, id)
    local its = scores[token]
    if not its then
      its = {}
      for other, score in jobs_of(token) do its[other] = score end
      scores[token] = its
    end
    return its[id]
  end

  -- made_at(state): when a job was made; nil if its text says that it was claimed
  local function made_at(state) return tonumber(state:match('^c(%d+) l[%d,]+$') or state:match('^c(%d+) l[%d,]+ x%d+$')) end

  -- created(state, token): the same; nil, too, if it was made after that claim, under the same id
  local function created(state, token)
    local claim, at = of(token), made_at(state)
    return claim and at and at <= claim.at and at or nil
  end

  -- text_in(token, id, text): the text that a claim of few jobs would have written; nil: that claim does not have the job
  local function text_in(token, id, text)
    local past, score = text:find('\n', 1, true), score_in(token, id)
    local state = past and text:sub(1, past - 1)
    local made = score and state and created(state, token)
    if not made then return nil end
    local claim = of(token)
    local limit = claim.limit and ' p' .. claim.limit or ''
    return 't' .. word(token) .. ' ' .. state .. ' b' .. claim.at - made .. ' n1' .. limit .. ' s' .. score .. text:sub(past)
  end

  local function forget(token) redis.call('HDEL', CLAIMS, token, token .. JOBS, token .. LEFT) end

  -- count_down(token, number): so many of its jobs have other texts now
  local function count_down(token, number)
    local left = redis.pcall('HINCRBY', CLAIMS, token .. LEFT, -number)
    if type(left) == 'number' and left <= 0 then forget(token) end
  end

  -- all(): their tokens, the newest first
  local function all()
    if tokens then return tokens end
    tokens = {}
    for _, name in ipairs(redis.pcall('HKEYS', CLAIMS)) do   -- an error has no length
      if not name:find(' ', 1, true) and of(name) then tokens[#tokens + 1] = name end
    end
    table.sort(tokens, function(one, other) return of(one).at > of(other).at end)
    return tokens
  end

  -- holder_of(id, state): the token of the claim that has it, the newest of several; nil: none
  local function holder_of(id, state)
    local at = made_at(state)
    for _, token in ipairs(at and all() or {}) do
      if at > of(token).at then break end
      if score_in(token, id) then return token end
    end
  end

  return {
    of = of, note = note, jobs_of = jobs_of, begun_by = begun_by, score_in = score_in, created = created, text_in = text_in, count_down = count_down, forget = forget,
    all = all, holder_of = holder_of,
  }
end
local made_claims
local function claims()
  made_claims = made_claims or noted_claims()
  return made_claims
end
