-- include: now queue batches score text job events ready places held_tasks
--
-- suspend_tasks(queue, by, on, tasks): no claim takes jobs of these tasks while the operator or the file says so: they
-- are held
--
-- KEYS  1 ns:{q}
-- ARGV  1 operator | file · 2 1: suspend, 0: resume, =: suspend these, resume all others · then tasks
-- reply 1 if the first of them is suspended now, by either · 0 if not · -1: there are too many tasks of which jobs are
--       held
--
-- moves nothing; the claims that meet the jobs hold them, and put them back
-- touches conf queue wake

-- at maxmemory Redis runs a script whose first write frees memory
redis.call('ZREM', QUEUE, '')
local field, wanted, words = 'suspended_tasks_' .. ARGV[1], {}, ''
local before = redis.call('HGET', CONF, field) or ''
for word in (ARGV[2] == '=' and '' or before):gmatch('%S+') do wanted[word] = true end
for i = 3, #ARGV do
  if ARGV[2] ~= '0' and not add_name(ARGV[i]) then return -1 end
  wanted[escape(ARGV[i])] = ARGV[2] ~= '0' or nil
end
for word in pairs(wanted) do words = words .. word .. ' ' end
if words == '' then redis.call('HDEL', CONF, field) else redis.call('HSET', CONF, field, words) end
local is_less, is_more = false, #words > #before
for word in before:gmatch('%S+') do is_less = is_less or not wanted[word] end
-- so no enqueue claims its job; who is noted as waiting still is
if is_less or is_more then redis.call('SET', WAKE, '1', 'XX', 'KEEPTTL') end
if is_less then redis.pcall('PUBLISH', WAKE, 'ready') end
return ARGV[3] and suspended_tasks()[escape(ARGV[3])] and 1 or 0
