-- include: now queue score status ends home finding
--
-- inspect(queue, what, ids): what is wrong with these jobs, each as it is at this moment.
--
-- KEYS  1 ns:{q}
-- ARGV  1 keys: a scan has found their keys · strays: the same; those that a set holds are passed over
--         members: a set holds them; those that have a key are passed over · then ids
-- reply {id, kind, detail, status that is right, …}; the kinds are told in fsck.py
--
-- moves nothing
-- touches queue scheduled started finished failed canceled deferred job

local wanted = {
  keys = function() return true end,
  strays = function(id) return not status_of(id) and redis.call('EXISTS', JOB .. id) == 1 end,
  members = function(id) return redis.call('EXISTS', JOB .. id) == 0 end,
}
local ids = {}
for i = 2, #ARGV do
  if wanted[ARGV[1]](ARGV[i]) then ids[#ids + 1] = ARGV[i] end
end
local replies, last = {}, 0
for _, job in ipairs(#ids > 0 and look(ids) or {}) do
  for _, found in ipairs(findings(job)) do
    replies[last + 1], replies[last + 2], replies[last + 3], replies[last + 4] = job.id, found[1], found[2], found[3]
    last = last + 4
  end
end
return replies
