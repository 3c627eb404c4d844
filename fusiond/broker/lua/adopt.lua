-- include: now queue score wake broken status ends
--
-- adopt(queue, ids): puts jobs that are in no set into one. No verb leaves such a job; a person with redis-cli may.
--
-- KEYS  1 ns:{q}
-- ARGV  ids, as a scan has found their keys
-- reply how many were in no set
--
-- moves (none) -> started     it has a token: an expired lease, which the next claim rescues
--       (none) -> finished    it has ended: to be dropped after a minute
--       (none) -> queue
--       (none) -> broken      no hash, or one that is no job's
-- touches queue scheduled started finished failed canceled deferred seq job broken conf wake

redis.call('ZREM', QUEUE, '')

local function adopt(id)
  local h = redis.pcall('HMGET', JOB .. id, 'task', 'args', 'token', 'ended_at', 'score')
  if h.err or not h[1] or not h[2] then return break_job(id) end
  if h[4] then return redis.call('ZADD', ROOT .. ':finished', keep_until(0), id) end
  if h[3] and h[3] ~= '' then return redis.call('ZADD', STARTED, now, id) end
  local seq = redis.call('INCR', SEQ)
  redis.call('ZADD', QUEUE, later(tonumber(h[5]) or 254 * BAND, seq), id)
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
