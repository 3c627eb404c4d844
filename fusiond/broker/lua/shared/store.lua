-- store(at, score, ready, later_on): writes the job whose words begin at ARGV[at] (as enqueue.lua tells them) and lists it, with its
-- score or its due time, in one of the two. (needs now, queue, score)

-- options(first): what a job has beside id, task, args and priority -> hash fields, due
local function options(first)
  local fields, due = {}, 0
  for i = first, first + 2 * ARGV[first - 1] - 1, 2 do
    local name, value = ARGV[i], ARGV[i + 1]
    if name == 'delay' then
      due = math.max(due, now) + value
    elseif name == 'at' then
      due = tonumber(value)
    elseif name == 'expires' then
      fields[#fields + 1], fields[#fields + 2] = 'expires_at', now + value
    else
      fields[#fields + 1], fields[#fields + 2] = 'header', value
    end
  end
  return fields, due
end

local function store(at, score, ready, later_on)
  local id, list, place = ARGV[at], ready, score
  if ARGV[at + 4] == '0' then
    redis.call('HSET', JOB .. id, 'task', ARGV[at + 1], 'args', ARGV[at + 2], 'created_at', now)
  else
    local fields, due = options(at + 5)
    if due > now then
      -- the score waits in the hash for its priority; the place in the row is given when the job comes due
      fields[#fields + 1], fields[#fields + 2] = 'score', score
      list, place = later_on, due
    end
    redis.call('HSET', JOB .. id, 'task', ARGV[at + 1], 'args', ARGV[at + 2], 'created_at', now, unpack(fields))
  end
  list[#list + 1], list[#list + 2] = place, id
end
