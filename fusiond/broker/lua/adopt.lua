-- include: now queue score wake broken status ends home
--
-- adopt(queue, ids): puts jobs that are in no set into one. No verb leaves such a job; a person with redis-cli may.
--
-- KEYS  1 ns:{q}
-- ARGV  ids, as a scan has found their keys
-- reply how many were in no set
--
-- moves (none) -> started     it has a token: an expired lease, which the next claim rescues
--       (none) -> finished | failed | canceled   it has ended
--       (none) -> queue
--       (none) -> broken      no hash, or one that is no job's
-- touches queue scheduled started finished failed canceled deferred seq job broken conf wake

redis.call('ZREM', QUEUE, '')

local function adopt(id)
  local h = redis.pcall('HMGET', JOB .. id, 'task', 'score', 'token', 'ended_at', 'last_outcome')
  if h.err or not h[1] or redis.call('HEXISTS', JOB .. id, 'args') == 0 then return break_job(id) end
  local status = home(id, h[3], h[4], h[5])
  local score = place_of(h[2])
  -- a lost run without a place in the row cannot be rescued
  if status == 'started' and not score then redis.call('HSET', JOB .. id, 'score', new_score(h[1])) end
  bring_home(id, status, h[1], score)
end

local adopted = 0
for _, id in ipairs(ARGV) do
  -- between the scan and this call it may have been dropped
  if not status_of(id) and redis.call('EXISTS', JOB .. id) == 1 then
    adopt(id)
    adopted = adopted + 1
  end
end
if adopted > 0 then wake() end
return adopted
