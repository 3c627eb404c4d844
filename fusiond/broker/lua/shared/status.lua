-- status_of(id): the status by the sets, and the job's score in that set; nil: no set holds it. Most jobs that people
-- ask for have ended or run. (needs queue)
local STATUSES = { 'finished', 'started', 'queued', 'scheduled', 'failed', 'canceled', 'deferred', 'held' }
local function set_of(status) return status == 'queued' and QUEUE or ROOT .. ':' .. status end
local function status_of(id)
  for _, status in ipairs(STATUSES) do
    local score = redis.call('ZSCORE', set_of(status), id)
    if score then return status, score end
  end
end
