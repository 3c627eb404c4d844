-- include: now queue many score wake line_up ends moved
--
-- move_remove(queue, jobs): removes jobs that are in the other queue now, or has them stay.
--
-- KEYS  1 ns:{q}
-- ARGV  per job: id, nonce, whether the cancel that is asked of it is in the copy 0|1, whether it stays 0|1
-- reply per job: 1 removed · 2 a cancel was asked since: copy it again · 3 it stays · 0 it was not leaving (any more)
--
-- moves deferred -> gone
--       deferred -> queue | scheduled | canceled    it stays: its old place
-- touches deferred leaving queue scheduled canceled job wake

redis.call('ZREM', QUEUE, '')

local function remove(id, nonce, cancel, stays)
  local kind, place = move_of(LEAVING, id, nonce)
  if not kind then return 0 end
  if stays == '1' then
    redis.call('HDEL', LEAVING, id)
    undefer(id, kind, kind == 'queued' and place or redis.call('HGET', JOB .. id, 'score') or 0, place)
    return 3
  end
  if cancel == '0' and redis.call('HEXISTS', JOB .. id, 'cancel') == 1 then return 2 end
  redis.call('HDEL', LEAVING, id)
  redis.call('ZREM', DEFERRED, id)
  redis.call('UNLINK', JOB .. id)
  return 1
end

local replies = {}
for i = 1, #ARGV, 4 do replies[#replies + 1] = remove(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]) end
if line_up() then wake() end
return replies
