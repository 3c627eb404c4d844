-- include: now queue many score text claims job events wake line_up broken places locks follow ends moved gaps
--
-- move_begin(queue, target, nonce, limit, skip_queued, skip_scheduled): the first `limit` waiting jobs are to leave for another queue.
--
-- KEYS  1 ns:{q}
-- ARGV  1 name of the other queue · 2 nonce · 3 limit · 4, 5 how many of the ready and of the scheduled jobs stay, at the head of each
-- reply {how many leave now, how many run}
--
-- moves held | queue | scheduled -> deferred
--       queue | scheduled -> broken     no text, or none of a job
-- touches queue held again scheduled started deferred leaving job claims broken conf

redis.call('ZREM', QUEUE, '')
local target, nonce, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local marked = 0

local function begin(set, kind, first)
  if limit <= 0 then return end
  local page = redis.call('ZRANGE', set, first, first + limit - 1, 'WITHSCORES')
  for i = 1, #page, 2 do
    local id = page[i]
    local h = load(id)
    if h then withdraw(id, h) end
    redis.call('ZREM', set, id)
    if not h then
      break_job(id)
    else
      redis.call('HSET', LEAVING, id, nonce .. ' ' .. kind .. ' ' .. page[i + 1] .. ' ' .. target)
      redis.call('ZADD', DEFERRED, now, id)
      marked, limit = marked + 1, limit - 1
    end
  end
end

begin(HELD, 'queued', 0)
local of_held = marked
begin(QUEUE, 'queued', tonumber(ARGV[4]))
leave_gaps(marked - of_held)
begin(SCHEDULED, 'scheduled', tonumber(ARGV[5]))
line_up()
local lost = redis.call('ZCOUNT', STARTED, '-inf', now)
return { marked, redis.call('ZCARD', STARTED) - lost }
