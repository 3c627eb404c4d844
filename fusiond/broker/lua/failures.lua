-- include: now queue score text job
--
-- failures(queue, start, count): a page of the failed jobs, grouped by task and error.
--
-- KEYS  1 ns:{q}
-- ARGV  1 start, from 0 · 2 count
-- reply {number of jobs in the page, {key, task, number, first end in ms, last end in ms, id of the last, start of its
--        error}, …}
--
-- A group has the jobs of one task whose errors have the same code, type and message, up to the first quote or escape;
-- numbers in it do not matter. A job that was not retried since it would have expired is in the group of its exception.
-- moves nothing
-- touches failed job

local MESSAGE, ERROR = 120, 1000  -- bytes that are compared, and bytes in the reply
local start, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local page = redis.call('ZREVRANGE', ROOT .. ':failed', start, start + most - 1, 'WITHSCORES')
local replies, groups = { #page / 2 }, {}

local function said(error, name) return error:match('"' .. name .. '": ?"([^"\\]*)') or '' end

-- key_of(h): the same for jobs that failed alike
local function key_of(h)
  local error = (h.error or ''):sub(1, ERROR)
  local code, kind, message = said(error, 'code'), said(error, 'type'), said(error, 'message')
  if code == 'EXPIRED' and kind ~= '' then
    code, message = 'EXCEPTION', message:gsub(';? ?not retried: .*$', ''):gsub('; its? [^;]* when it expired$', '')
  end
  return h.task .. '\n' .. code .. '\n' .. kind .. '\n' .. message:sub(1, MESSAGE):gsub('%d+', '#')
end

local function add(id, h, key)
  local ended, group = finite(h.ended_at) or 0, groups[key]
  if not group then
    group = { key, h.task, 0, ended, -1, id, '' }
    groups[key], replies[#replies + 1] = group, group
  end
  group[3], group[4] = group[3] + 1, math.min(group[4], ended)
  if ended > group[5] then group[5], group[6], group[7] = ended, id, (h.error or ''):sub(1, ERROR) end
end

for first = 1, #page, 2 * PAGE do
  local last = math.min(first + 2 * PAGE - 1, #page)
  for i, text in ipairs(texts_of(page, first, last)) do
    local h = type(text) == 'string' and decode(text)
    if h then
      add(page[first + 2 * (i - 1)], h, key_of(h))
    end
  end
end
return replies
