-- include: now queue score text job claim_message
--
-- given(queue, take_back, tokens): the jobs that enqueues have claimed under these tokens: a message may have been lost
--
-- KEYS  1 ns:{q}
-- ARGV  1 `1`: the tokens are withdrawn: no enqueue will claim a job under them; else 0 · then the tokens
-- reply per token: the message with its job; empty: it got none, or no longer has it
--
-- moves nothing
-- touches queue wake given job

-- at maxmemory Redis runs a script whose first write frees memory
redis.call('ZREM', QUEUE, '')
local waiting = ARGV[1] == '1' and redis.pcall('GET', WAKE)
local left = type(waiting) == 'string' and waiting:match('^%S+')
-- message_of(token): the message that was published, if the token still has the job
local function message_of(token)
  local after, id = (redis.call('GET', GIVEN .. token) or ''):match('^(%d+) (.*)$')
  local h = id and state_if_held(id, token) and load_job(id)
  return h and claim_message(token, after, id, h.task, h.header or '', h.args) or ''
end
local replies = {}
for i = 2, #ARGV do
  if ARGV[i] == left then redis.call('SET', WAKE, '1', 'KEEPTTL') end
  replies[i - 1] = message_of(ARGV[i])
end
return replies
