-- include: now queue score text job status
--
-- outcome(queue, id): the status, and how the job ended; a short reply, since producers ask often
--
-- KEYS  1 ns:{q}
-- ARGV  1 id
-- reply nil: no such job, or {status, result | nil, error | nil}
--
-- moves nothing
-- touches queue scheduled started finished failed canceled deferred held job

local status = status_of(ARGV[1])
if not status then return false end
if status ~= 'finished' and status ~= 'failed' and status ~= 'canceled' then return { status } end
local h = load_job(ARGV[1]) or {}
return { status, h.result or false, h.error or false }
