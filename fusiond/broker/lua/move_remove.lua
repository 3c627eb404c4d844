-- include: now queue many score text claims job events wake line_up places locks follow tally ends moved
--
-- move_remove(queue, jobs): removes jobs that are in the other queue now, or has them stay.
--
-- KEYS  1 ns:{q}
-- ARGV  per job: id, nonce, whether the cancel that is asked of it is in the copy 0|1, whether it stays 0|1
-- reply per job: 1 removed · 2 a cancel was asked since: copy it again · 3 it stays · 0 it was not leaving (any more)
--
-- moves deferred -> gone
--       deferred -> queue | scheduled | canceled    it stays: its old place
-- touches deferred leaving queue scheduled canceled job claims unique events metrics wake

redis.call('ZREM', QUEUE, '')
read_events(redis.call('HGET', CONF, 'events'))

-- pass_children(id, target): has the other queue tell the jobs that wait for this one
local function pass_children(id, target)
  local key = ROOT .. ':children:' .. id
  for _, entry in ipairs(redis.call('LRANGE', key, 0, -1)) do
    local queue, child, name = entry:match('^([^/ ]+)/(%S+) (%S+)$')
    if queue then post(target, 'after', id, queue, child, name) end
  end
  redis.call('DEL', key)
end

local function remove(id, nonce, cancel, stays)
  local kind, place = move_of(LEAVING, id, nonce)
  if not kind then return 0 end
  if stays == '1' then
    redis.call('HDEL', LEAVING, id)
    local h = load(id)
    undefer(id, h, kind, return_to_row, kind == 'queued' and place or h and finite(h.score) or 0, place)
    return 3
  end
  local state, target = state_of(id), redis.call('HGET', LEAVING, id):match('(%S+)$')
  if cancel == '0' and state and state:find(' a', 1, true) then return 2 end
  redis.call('HDEL', LEAVING, id)
  redis.call('ZREM', DEFERRED, id)
  local h = state and state:find(' y', 1, true) and load(id)
  if h then free_lock(id, h, true) end
  if state and state:find(' f%l*c') then pass_children(id, target) end
  unlink({ id })
  return 1
end

local replies = {}
for i = 1, #ARGV, 4 do replies[#replies + 1] = remove(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]) end
write_endings()
if line_up() then wake() end
if events then events.write() end
return replies
