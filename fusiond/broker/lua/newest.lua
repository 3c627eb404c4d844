-- include: now queue batches score text job
--
-- newest(queue, status, from, count, task, text, wanted, by_score): a page of the jobs of one status, the newest first.
--
-- KEYS  1 ns:{q}
-- ARGV  1 status · 2 start, from the previous page; empty: the newest · 3 count
--       4 a task, optional · 5 a text in lower case, optional: the page has only jobs with these · 6 how many of them
--       7 optional, 1: the lowest scores come first, and a page begins behind a job, so that none that stays is missed
-- reply {start of the next page, or empty, how many jobs were read, id, score, {field, value, …}, …}
--
-- Ready and held jobs are sorted by arrival, whatever their priorities. Ended jobs are sorted by how long they are
-- kept, others by their scores, as are those of a queue with `fair_by`, where a score has a turn and not an arrival.
-- The job that takes a page over 1 MB is the last one. A search ends after 1 MB of texts.
-- moves nothing
-- touches conf queue scheduled started finished failed canceled deferred held job

local status, from, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local KEY = status == 'queued' and QUEUE or ROOT .. ':' .. status
local LARGE_PAGE, LARGE_SEARCH = 1048576, 1048576  -- bytes
local TASK, TEXT, wanted = ARGV[4] or '', ARGV[5] or '', tonumber(ARGV[6]) or most
local filters = TASK ~= '' or TEXT ~= ''
local replies, bytes, searched = { '', 0 }, 0, 0
local ids, scores, marks = {}, {}, {}  -- of each job, and where the page behind it begins

local CASED = TEXT:find('%a')      -- folding the case of a text takes as long as reading it
-- has(text, id): whether a job has the task and the text
local function has(text, id)
  if TASK ~= '' and not text:find('\n' .. TASK .. '\n', 1, true) then return false end
  if CASED then text, id = text:lower(), id:lower() end
  return TEXT == '' or (text:find(TEXT, 1, true) or id:find(TEXT, 1, true)) ~= nil
end
-- fitting(first, last): number of a job -> true: it can be of that task and have that text; the caller checks exactly.
-- Few jobs fit as a rule, so all are searched at once, and one by one only if that finds something
local function fitting(first, last)
  local keys, fits = {}, {}
  for i = first, last do keys[#keys + 1] = JOB .. ids[i] end
  local texts = redis.call('MGET', unpack(keys))
  for n, text in ipairs(texts) do
    local length = text and text:match('^[^\n]* l%d+,%d+,(%d+)')
    if length then texts[n] = text .. (large_args(ids[first + n - 1], length) or '') end
    if not text then texts[n], fits[first + n - 1] = '', true end
  end
  local all = table.concat(texts, '\n')
  searched = searched + #all
  if not has(all, table.concat(ids, '\n', first, last)) then return fits end
  for n, text in ipairs(texts) do
    local i = first + n - 1
    fits[i] = fits[i] or has(text, ids[i])
  end
  return fits
end
-- add_to_page(id, score)
local function add_to_page(id, score)
  if redis.call('STRLEN', JOB .. id) == 0 then return end
  local fields = field_list(load_job(id) or {})
  replies[#replies + 1], replies[#replies + 2], replies[#replies + 3] = id, score, fields
  for _, field in ipairs(fields) do bytes = bytes + #field end
  wanted = wanted - 1
end

-- without_arrival(found, score): adds jobs whose score somebody has set to infinity, as the last arrivals
local function without_arrival(found, score)
  local ids = redis.call('ZRANGEBYSCORE', KEY, score, score, 'LIMIT', 0, most)
  for _, id in ipairs(ids) do found[#found + 1] = { BAND, id, score } end
end

-- arrivals(): {arrival, id, score} of the last `most` arrivals below `from` of each priority
local function arrivals()
  local found, below, bands = {}, '(+inf', 0
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
    below, bands = '(' .. whole(first), bands + 1
  end
  if bands > 1 or not from then table.sort(found, function(one, other) return one[1] > other[1] end) end
  return found
end

-- rank_behind(score, id): the rank behind a job, or of the first with its score if it has left, or has another one
local function rank_behind(score, id)
  if redis.call('ZSCORE', KEY, id) == score then return redis.call('ZRANK', KEY, id) + 1 end
  return redis.call('ZCOUNT', KEY, '-inf', '(' .. score)
end

local fair = redis.call('HMGET', CONF, 'fair', 'placing')
if ARGV[7] == '1' then
  local first = ARGV[2] == '' and 0 or rank_behind(ARGV[2]:match('^(%S+) (.*)$'))
  local page = redis.call('ZRANGE', KEY, first, first + most - 1, 'WITHSCORES')
  for i = 1, #page, 2 do
    ids[#ids + 1], scores[#ids + 1], marks[#ids + 1] = page[i], page[i + 1], page[i + 1] .. ' ' .. page[i]
  end
elseif (status == 'queued' or status == 'held') and not (fair[1] or fair[2]) then
  local found = arrivals()
  for i = 1, math.min(most, #found) do marks[i], ids[i], scores[i] = unpack(found[i]) end
else
  from = from or 0
  local page = redis.call('ZREVRANGE', KEY, from, from + most - 1, 'WITHSCORES')
  for i = 1, #page, 2 do
    ids[#ids + 1], scores[#ids + 1], marks[#ids + 1] = page[i], page[i + 1], from + #ids + 1
  end
end
for first = 1, #ids, PAGE do
  local last = math.min(first + PAGE - 1, #ids)
  local fits = filters and fitting(first, last)
  for i = first, last do
    if bytes >= LARGE_PAGE or wanted < 1 then break end
    replies[2] = i
    if not fits or fits[i] then add_to_page(ids[i], scores[i]) end
  end
  if replies[2] < last or searched > LARGE_SEARCH then break end
end
local mark = marks[replies[2]]
if mark then replies[1] = type(mark) == 'number' and whole(mark) or mark end
return replies
