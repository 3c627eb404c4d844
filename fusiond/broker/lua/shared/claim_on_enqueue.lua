-- An enqueue claims its job for a waiting dispatcher, and the message that wakes the dispatcher has the job. (needs
-- now, queue, score, text, wake)
-- It is a claim like any other: same text, same token, same rules. Its lease ends after FIRST_LEASE; the dispatcher
-- renews it at once. ns:{q}:given:<token> has the job's id, as the message may be lost: "<ms between the claim that
-- left the token and the enqueue> <id>" (given.lua).
local FIRST_LEASE, LARGEST_GIVEN = 6000, 4096  -- ms; bytes of header and args
local COUNTS, KEPT = 6000, 15000  -- ms: for how long a token is valid; for how long the job's id is kept
-- read_waiting(): the value of WAKE; sets it to 1: others may wait; false: nobody waits
local function read_waiting()
  local waiting = redis.pcall('SET', WAKE, '1', 'XX', 'GET', 'PX', WAITS)
  return type(waiting) == 'string' and waiting
end
-- open_reservation(waiting): the token for the job, and when a claim left it; nil: there is none, or another job is
-- ready
local function open_reservation(waiting)
  local token, left = (waiting or ''):match('^(%S+) (%d+)$')
  local age = token and now - left
  if age and age >= 0 and age <= COUNTS and redis.call('EXISTS', QUEUE) == 0 then return token, left end
end
-- claim_on_enqueue(token, left, id, task, args, score, header): (new) -> started; false: the job exists
local function claim_on_enqueue(token, left, id, task, args, score, header)
  local words, line, is_large = ' b0 n1 s' .. whole(score), args, #args >= LARGE
  if is_large then words, line = ',' .. #args .. words, '' end
  local text = 't' .. escape(token) .. ' ' .. new_text(task, header, line, words)
  if not redis.call('SET', JOB .. id, text, 'NX') then return false end
  if is_large then redis.call('SET', JOB .. id .. ARGS, args) end
  redis.call('ZADD', STARTED, now + FIRST_LEASE, id)
  redis.call('SET', GIVEN .. token, whole(now - left) .. ' ' .. id, 'PX', KEPT)
  redis.pcall('PUBLISH', WAKE, claim_message(token, now - left, id, task, header, args))
  return true
end
