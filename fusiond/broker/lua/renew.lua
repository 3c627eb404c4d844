-- include: now queue many
--
-- renew(queue, lease_ms, attempts): keeps the leases of running jobs, and notes how far they are.
--
-- KEYS  1 ns:{q}
-- ARGV  1 lease, ms · then per attempt: id, token, note
--         note  empty
--               begun: the attempt has begun, so the job expires no more
--               permit: the attempt may begin and no other one; if its lease is lost, the job fails
-- reply per attempt: 1 held until now + lease · 0 lost, kill it · 2 held, and a cancel was asked
--
-- moves nothing
-- touches queue started job

-- at maxmemory ZADD is refused as a script's first write, which would expire every lease at once
redis.call('ZREM', STARTED, '')
local deadline, held, replies = now + ARGV[1], {}, {}
for i = 2, #ARGV, 3 do
  local h = redis.pcall('HMGET', JOB .. ARGV[i], 'token', 'cancel')
  if h[1] == ARGV[i + 1] then
    if ARGV[i + 2] == 'begun' then
      redis.call('HDEL', JOB .. ARGV[i], 'expires_at')
    elseif ARGV[i + 2] == 'permit' then
      redis.call('HSET', JOB .. ARGV[i], 'permit', h[1])
    end
    held[#held + 1], held[#held + 2] = deadline, ARGV[i]
    replies[#replies + 1] = h[2] and 2 or 1
  else
    replies[#replies + 1] = 0
  end
end
many('ZADD', STARTED, held, 'XX')
return replies
