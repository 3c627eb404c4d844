-- include: now queue score text job
--
-- jobs(queue, status, start, count): a page of the jobs of one status.
--
-- KEYS  1 ns:{q}
-- ARGV  1 status · 2 start, from 0 · 3 count
-- reply {id, score, {field, value, …}, …}: waiting and running jobs in their order, ended ones by time of deletion
--
-- moves nothing
-- touches queue scheduled started finished failed canceled deferred held job

local status, start = ARGV[1], tonumber(ARGV[2])
local has_ended = status == 'finished' or status == 'failed' or status == 'canceled'
local key = status == 'queued' and QUEUE or ROOT .. ':' .. status
local page = redis.call(has_ended and 'ZREVRANGE' or 'ZRANGE', key, start, start + ARGV[3] - 1, 'WITHSCORES')
local replies = {}
for i = 1, #page, 2 do
  if redis.call('EXISTS', JOB .. page[i]) == 1 then
    local fields = field_list(load_job(page[i]) or {})
    replies[#replies + 1], replies[#replies + 2], replies[#replies + 3] = page[i], page[i + 1], fields
  end
end
return replies
