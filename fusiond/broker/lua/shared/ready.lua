-- The row: which jobs get into it, and which wait for their time. `write_ready` writes all of it. (needs queue, job, batches)
local ready, scheduled = {}, {}    -- {score or due time, id, …}
local has_free_place = false      -- a job has ended that counted towards a limit
local stored = {}                 -- the texts of new jobs: {key, text, …}
local function add(list, score, id)
  list[#list + 1], list[#list + 2] = score, id
end
local turns                       -- of a queue with `fair_by`: how jobs get their turns (turns.lua)
-- make_ready(id, score, args): the job gets a new place, behind the others of its priority, or its turn
local function make_ready(id, score, args)
  if turns then score = turns.assign(score, args) end
  ready[#ready + 1], ready[#ready + 2] = score, id
end
-- return_to_ready(id, score): the job gets back the place that it had
local function return_to_ready(id, score) ready[#ready + 1], ready[#ready + 2] = score, id end
local function write_stored()
  write_texts(stored)
  stored = {}
end
-- write_ready(): whether those who wait must know: something is ready, or comes due before all that was scheduled.
local function write_ready()
  write_stored()
  call_in_batches('ZADD', QUEUE, ready)
  if turns then turns.write() end
  local any = #ready > 0 or has_free_place
  ready, has_free_place = {}, false
  if #scheduled == 0 then return any end
  local first, earliest = tonumber(redis.call('ZRANGE', SCHEDULED, 0, 0, 'WITHSCORES')[2]), math.huge
  for i = 1, #scheduled, 2 do earliest = math.min(earliest, scheduled[i]) end
  call_in_batches('ZADD', SCHEDULED, scheduled)
  scheduled = {}
  return any or not first or earliest < first
end
