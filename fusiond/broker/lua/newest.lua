-- include: now queue batches score text job
--
-- newest(queue, status, from, count, task, text, by_score): a page of the jobs of one status, the newest first.
--
-- KEYS  1 ns:{q}
-- ARGV  1 status · 2 start, from the previous page; empty: the newest · 3 count
--       4 a task, optional · 5 a text in lower case, optional: the page has only jobs with these
--       6 optional, 1: the lowest scores come first, and a page begins behind a job, so that none that stays is missed
-- reply {start of the next page, or empty, how many jobs were read, id, score, {field, value, …}, …}
--
-- Ready and held jobs are sorted by arrival, whatever their priorities. Ended jobs are sorted by how long they are
-- kept, others by their scores, as are those of a queue with `fair_by`, where a score has a turn and not an arrival.
-- The job that takes a page over 1 MB is the last one.
-- moves nothing
-- touches conf queue scheduled started finished failed canceled deferred held job

local status, from, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local KEY = status == 'queued' and QUEUE or ROOT .. ':' .. status
local LARGE_PAGE = 1048576        -- bytes
local TASK, TEXT = ARGV[4] or '', ARGV[5] or ''
local replies, bytes, last = { '', 0 }, 0, nil

-- may_fit(id): whether the job can be of that task and have that text; the caller checks precisely
local function may_fit(id)
  local job = redis.pcall('GET', JOB .. id)
  if type(job) ~= 'string' then return true end
  if TASK ~= '' and not job:find('\n' .. TASK .. '\n', 1, true) then return false end
  if TEXT == '' or id:lower():find(TEXT, 1, true) or job:lower():find(TEXT, 1, true) then return true end
  local args = redis.pcall('GET', JOB .. id .. ARGS)
  return type(args) == 'string' and args:lower():find(TEXT, 1, true) ~= nil
end
local filters = TASK ~= '' or TEXT ~= ''

-- add_to_page(id, score): returns whether the page has room for another job
local function add_to_page(id, score)
  replies[2] = replies[2] + 1
  if filters and not may_fit(id) then return true end
  if redis.call('STRLEN', JOB .. id) > 0 then
    local fields = field_list(load_job(id) or {})
    replies[#replies + 1], replies[#replies + 2], replies[#replies + 3] = id, score, fields
    for _, field in ipairs(fields) do bytes = bytes + #field end
  end
  return bytes < LARGE_PAGE
end

-- without_arrival(found, score): adds jobs whose score somebody has set to infinity, as the last arrivals
local function without_arrival(found, score)
  local ids = redis.call('ZRANGEBYSCORE', KEY, score, score, 'LIMIT', 0, most)
  for _, id in ipairs(ids) do found[#found + 1] = { BAND, id, score } end
end

-- arrivals(): {arrival, id, score} of the last `most` arrivals below `from` of each priority
local function arrivals()
  local found, below = {}, '(+inf'
  if not from then
    without_arrival(found, '+inf')
    without_arrival(found, '-inf')
  end
  for _ = 0, 255 do
    local top = tonumber(redis.call('ZREVRANGEBYSCORE', KEY, below, '(-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
    if not top then break end
    local first = with_sequence(top, 0)
    local limit = from and '(' .. whole(first + from) or whole(first + BAND - 1)
    local page = redis.call('ZREVRANGEBYSCORE', KEY, limit, whole(first), 'WITHSCORES', 'LIMIT', 0, most)
    for i = 1, #page, 2 do found[#found + 1] = { page[i + 1] - first, page[i], page[i + 1] } end
    below = '(' .. whole(first)
  end
  table.sort(found, function(one, other) return one[1] > other[1] end)
  return found
end

-- rank_behind(score, id): the rank behind a job, or of the first with its score if it has left, or has another one
local function rank_behind(score, id)
  if redis.call('ZSCORE', KEY, id) == score then return redis.call('ZRANK', KEY, id) + 1 end
  return redis.call('ZCOUNT', KEY, '-inf', '(' .. score)
end

local fair = redis.call('HMGET', CONF, 'fair', 'placing')
if ARGV[6] == '1' then
  local first = ARGV[2] == '' and 0 or rank_behind(ARGV[2]:match('^(%S+) (.*)$'))
  local page = redis.call('ZRANGE', KEY, first, first + most - 1, 'WITHSCORES')
  for i = 1, #page, 2 do
    replies[1] = page[i + 1] .. ' ' .. page[i]
    if not add_to_page(page[i], page[i + 1]) then break end
  end
elseif (status == 'queued' or status == 'held') and not (fair[1] or fair[2]) then
  local found = arrivals()
  for i = 1, math.min(most, #found) do
    last = found[i][1]
    if not add_to_page(found[i][2], found[i][3]) then break end
  end
  if last then replies[1] = whole(last) end
else
  from = from or 0
  local page = redis.call('ZREVRANGE', KEY, from, from + most - 1, 'WITHSCORES')
  for i = 1, #page, 2 do
    from = from + 1
    if not add_to_page(page[i], page[i + 1]) then break end
  end
  if #page > 0 then replies[1] = whole(from) end
end
return replies
