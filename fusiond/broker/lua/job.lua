-- include: now queue batches score text job ready argument_values turns status
--
-- job(queue, id): all fields of a job
--
-- KEYS  1 ns:{q}
-- ARGV  1 id
-- reply nil: no such job, or {status, score in the set of that status, {field, value, …}}; without fields it is not
--       readable; `tenant`, in a queue with `fair_by`: the values of the arguments
--
-- moves nothing
-- touches conf queue scheduled started finished failed canceled deferred held job

if redis.call('EXISTS', JOB .. ARGV[1]) == 0 then return false end
local status, score = status_of(ARGV[1])
if not status then return false end
local h = load_job(ARGV[1])
local fair = redis.call('HMGET', CONF, 'fair', 'placing')
local by = fair[1] or fair[2] and fair[2]:match('^%S+')
if h and by then h.tenant = by .. '=' .. make_turns(by).tenant_of(h.args) end
return { status, score, field_list(h or {}) }
