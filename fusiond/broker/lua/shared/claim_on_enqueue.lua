-- An enqueue claims its job for a dispatcher that waits, and the message that wakes that has the job. (needs now, queue, score, text, wake)
-- It is a claim like any other: same text, same token, same rules. Its lease ends after FIRST_LEASE, as the dispatcher renews it at once. Which job
-- a token was given stands in ns:{q}:given:<token>, in case the message gets lost: "<ms from when the token was left to then> <id>" (given.lua).
local FIRST_LEASE, LARGEST_GIVEN = 6000, 4096   -- ms; bytes of header and args
local COUNTS, KEPT = 6000, 15000                -- ms; for how long a token counts from the claim that left it; for how long the note is kept
-- read_waiting(): what WAKE says, which says from now on that others may wait; false: nobody waits
local function read_waiting()
  local waiting = redis.pcall('SET', WAKE, '1', 'XX', 'GET', 'PX', WAITS)
  return type(waiting) == 'string' and waiting
end
-- open_reservation(waiting): the token of the dispatcher that takes a job, and when that was left; nil: none does, or another job waits
local function open_reservation(waiting)
  local token, left = (waiting or ''):match('^(%S+) (%d+)$')
  local age = token and now - left
  if age and age >= 0 and age <= COUNTS and redis.call('EXISTS', QUEUE) == 0 then return token, left end
end
-- claim_on_enqueue(token, left, id, task, args, score, header): -> started; false where the job is there
local function claim_on_enqueue(token, left, id, task, args, score, header)
  local words, line, is_large = ' b0 n1 s' .. whole(score), args, #args >= LARGE
  if is_large then words, line = ',' .. #args .. words, '' end
  if not redis.call('SET', JOB .. id, 't' .. escape(token) .. ' ' .. new_text(task, header, line, words), 'NX') then return false end
  if is_large then redis.call('SET', JOB .. id .. ARGS, args) end
  redis.call('ZADD', STARTED, now + FIRST_LEASE, id)
  redis.call('SET', GIVEN .. token, whole(now - left) .. ' ' .. id, 'PX', KEPT)
  redis.pcall('PUBLISH', WAKE, claim_message(token, now - left, id, task, header, args))
  return true
end
