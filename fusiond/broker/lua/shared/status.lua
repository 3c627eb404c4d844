-- status_of(id): the status that the sets say and the job's score in that set; nil where none holds it. (needs queue)
-- Most jobs that are asked for have ended or run.
local STATUSES = { 'finished', 'started', 'queued', 'scheduled', 'failed', 'canceled', 'deferred', 'held' }
-- set_of(status): the key of the set.
local function set_of(status)
  return status == 'queued' and QUEUE or ROOT .. ':' .. status
end
local function status_of(id)
  for _, status in ipairs(STATUSES) do
    local score = redis.call('ZSCORE', set_of(status), id)
    if score then return status, score end
  end
end
