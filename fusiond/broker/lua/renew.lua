-- include: now queue many score text job
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
local deadline, held, replies = whole(now + ARGV[1]), {}, {}
-- note(id, what): few attempts have one
local function note(id, what)
  local h = load(id)
  if what == 'begun' then h.expires_at = nil else h.permit = h.token end
  save(id, h)
end
for i = 2, #ARGV, 3 do
  local state, mark = state_of(ARGV[i]) or '', 't' .. word(ARGV[i + 1]) .. ' '
  if state:sub(1, #mark) == mark then
    if ARGV[i + 2] == 'permit' or ARGV[i + 2] == 'begun' and state:find(' x', 1, true) then note(ARGV[i], ARGV[i + 2]) end
    held[#held + 1], held[#held + 2] = deadline, ARGV[i]
    replies[#replies + 1] = state:find(' a', 1, true) and 2 or 1
  else
    replies[#replies + 1] = 0
  end
end
many('ZADD', STARTED, held, 'XX')
return replies
