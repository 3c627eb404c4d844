-- What an enqueue has for a dispatcher that waits: WAKE says that one does, and the token under which it takes a job. (needs now, queue, score, text, wake)
-- A job that a wake-up carries has a lease of CARRIED ms and a half. Its dispatcher has it begin at once, trusts that lease for a part of it,
-- and confirms it by a renewal, to a whole number; if it does not, the next claim puts the job back in its place (rescue.lua).
local CARRIED, LARGEST_CARRIED = '700.5', 4096   -- ms; bytes of header and args
-- who_waits(): what WAKE says, which says from now on that others may wait; false: nobody waits
local function who_waits()
  local waiting = redis.pcall('SET', WAKE, '1', 'XX', 'GET', 'PX', WAITS)
  return type(waiting) == 'string' and waiting
end
-- takes_one(waiting): whether one of those takes a job, and no other job waits
local function takes_one(waiting) return waiting and waiting ~= '1' and redis.call('EXISTS', QUEUE) == 0 end
-- carry(waiting, id, task, args, score, header): -> started, under the token that WAKE has said; false where the job is there
local function carry(waiting, id, task, args, score, header)
  local token, left = waiting:match('^(%S*) ?(%d*)')
  local words, line, is_large = ' b0 n1 s' .. whole(score), args, #args >= LARGE
  if is_large then words, line = ',' .. #args .. words, '' end
  if not redis.call('SET', JOB .. id, 't' .. word(token) .. ' ' .. new_text(task, header, line, words), 'NX') then return false end
  if is_large then redis.call('SET', JOB .. id .. ARGS, args) end
  redis.call('ZADD', STARTED, now + CARRIED, id)
  redis.pcall('PUBLISH', WAKE, string.format('job %s %d %d %d %d\n', token, now - (tonumber(left) or 0), #id, #task, #header) .. id .. task .. header .. args)
  return true
end
