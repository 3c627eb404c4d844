-- status_of(id): the status that the sets say and the job's score in that set; nil where none holds it. (needs queue)
-- Most jobs that are asked for have ended or run.
local STATUSES = { 'finished', 'started', 'queued', 'scheduled', 'failed', 'canceled', 'deferred' }
local function status_of(id)
  for _, status in ipairs(STATUSES) do
    local score = redis.call('ZSCORE', status == 'queued' and QUEUE or ROOT .. ':' .. status, id)
    if score then return status, score end
  end
end
