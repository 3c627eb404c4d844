-- The ready set and the scheduled set. Functions note the jobs; `write_ready` writes them. (needs queue, job, batches)
local ready, scheduled = {}, {}   -- {score or due time, id, …}
local has_free_place = false      -- a job that counted towards a limit has ended
local stored = {}                 -- the texts of new jobs: {key, text, …}
local function add(list, score, id) list[#list + 1], list[#list + 2] = score, id end
local turns                       -- of a queue with `fair_by`: assigns the turns (turns.lua)
-- make_ready(id, score, args): puts the job behind the others of its priority, or at its tenant's next turn
local function make_ready(id, score, args)
  if turns then score = turns.assign(score, args) end
  ready[#ready + 1], ready[#ready + 2] = score, id
end
-- return_to_ready(id, score): puts the job back with the score that it had
local function return_to_ready(id, score) ready[#ready + 1], ready[#ready + 2] = score, id end
local function write_stored()
  write_texts(stored)
  stored = {}
end
-- write_ready(): returns whether waiting dispatchers must be woken: a job is ready, or is due earlier than all that
-- were scheduled
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
