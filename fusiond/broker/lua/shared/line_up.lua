-- The row: which jobs get into it, and which wait for their time. `line_up` writes all of it. (needs queue, job, many)
local ready, later_on = {}, {}    -- {score or due time, id, …}
local has_free_place = false      -- a job has ended that counted towards a limit
local stored = {}                 -- the texts of new jobs: {key, text, …}
local function add(list, place, id)
  list[#list + 1], list[#list + 2] = place, id
end
local turns                       -- of a queue with `fair_by`: how jobs get their turns (turns.lua)
-- enter_row(id, score, args): the job gets a new place, behind the others of its priority, or its turn
local function enter_row(id, score, args)
  if turns then score = turns.take(score, args) end
  ready[#ready + 1], ready[#ready + 2] = score, id
end
-- return_to_row(id, score): the job gets back the place that it had
local function return_to_row(id, score) ready[#ready + 1], ready[#ready + 2] = score, id end
local function write_stored()
  write(stored)
  stored = {}
end
-- line_up(): whether those who wait must know: something is ready, or comes due before all that was scheduled.
local function line_up()
  write_stored()
  many('ZADD', QUEUE, ready)
  if turns then turns.write() end
  local any = #ready > 0 or has_free_place
  ready, has_free_place = {}, false
  if #later_on == 0 then return any end
  local first, earliest = tonumber(redis.call('ZRANGE', SCHEDULED, 0, 0, 'WITHSCORES')[2]), math.huge
  for i = 1, #later_on, 2 do earliest = math.min(earliest, later_on[i]) end
  many('ZADD', SCHEDULED, later_on)
  later_on = {}
  return any or not first or earliest < first
end
