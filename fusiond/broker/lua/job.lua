-- include: queue status
--
-- job(queue, id): all that is known of a job.
--
-- KEYS  1 ns:{q}
-- ARGV  1 id
-- reply nil: no such job, or {status, score in the set of that status, field, value, …}
--
-- moves nothing
-- touches queue scheduled started finished failed canceled deferred job

local fields = redis.pcall('HGETALL', JOB .. ARGV[1])
if fields.err or #fields == 0 then return false end
local status, score = status_of(ARGV[1])
if not status then return false end
return { status, score, fields }
