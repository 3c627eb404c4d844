-- include: now queue score text job claim_message
--
-- given(queue, take_back, tokens): the jobs that a dispatcher was given under tokens that it has left, in case it has not heard of them.
--
-- KEYS  1 ns:{q}
-- ARGV  1 `1`: these tokens are taken back, so none of them is given a job from now on; else 0 · then the tokens
-- reply per token: the message that has brought its job; empty: it was given none, or no longer has it
--
-- moves nothing
-- touches queue wake given job

-- at maxmemory a script passes whose first write frees memory
redis.call('ZREM', QUEUE, '')
local waiting = ARGV[1] == '1' and redis.pcall('GET', WAKE)
local left = type(waiting) == 'string' and waiting:match('^%S+')
-- message_of(token): the one that was published, if the token has the job still
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
