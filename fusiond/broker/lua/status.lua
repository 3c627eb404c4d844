-- include: queue status
--
-- status(queue, id): the status of a job.
--
-- KEYS  1 ns:{q}
-- ARGV  1 id
-- reply the status, or nil: no such job
--
-- moves nothing
-- touches queue scheduled started finished failed canceled deferred held

return (status_of(ARGV[1])) or false
