-- include: now queue score text job status
--
-- waiting_for(queue, status, score, id, names): how many jobs of a page of those with this status belong to these tasks
-- and cron entries
--
-- KEYS  1 ns:{q}
-- ARGV  1 status; `queued` includes the held jobs · 2, 3 score and id of the last job of the previous page;
--       first page: -inf and empty · then names: a task with a t before it, a cron entry with a c
-- reply {score and id of the last job of this page, or empty if it is the last page, how many jobs of each name}
--
-- Jobs keep their scores when they are held or released. So each is on one page, even if it is held between two pages.
-- moves nothing
-- touches queue scheduled deferred held job

local LOOKED_AT, status, behind = 500, ARGV[1], { score = tonumber(ARGV[2]), id = ARGV[3] }
-- comes_first(one, two): whether the first job precedes the second in Redis. `<` would compare by the server's locale
local function comes_first(one, two)
  if one.score ~= two.score then return one.score < two.score end
  local at = 1
  while at <= #one.id and one.id:byte(at) == two.id:byte(at) do at = at + 1 end
  return (one.id:byte(at) or -1) < (two.id:byte(at) or -1)
end
-- first_of_page(key): the rank of the set's first job on the page; many jobs may have the score where it begins
local function first_of_page(key)
  local low, high = redis.call('ZCOUNT', key, '-inf', '(' .. ARGV[2]), redis.call('ZCOUNT', key, '-inf', ARGV[2])
  while low < high do
    local middle = math.floor((low + high) / 2)
    local job = { score = behind.score, id = redis.call('ZRANGE', key, middle, middle)[1] }
    if comes_first(behind, job) then high = middle else low = middle + 1 end
  end
  return low
end

local found, ids, numbers = {}, {}, {}
for _, key in ipairs({ set_of(status), status == 'queued' and set_of('held') or nil }) do
  local first = first_of_page(key)
  local page = redis.call('ZRANGE', key, first, first + LOOKED_AT - 1, 'WITHSCORES')
  for i = 1, #page, 2 do found[#found + 1] = { id = page[i], score = tonumber(page[i + 1]), place = page[i + 1] } end
end
table.sort(found, comes_first)
for i = 1, math.min(#found, LOOKED_AT) do ids[2 * i - 1], ids[2 * i] = found[i].id, found[i].place end

local function note(name) numbers[name] = (numbers[name] or 0) + 1 end
for from = 1, #ids, 2 * PAGE do
  local last = math.min(from + 2 * PAGE - 1, #ids)
  for i, text in ipairs(texts_of(ids, from, last)) do
    note('t' .. ((text or ''):match('^[^\n]*\n([^\n]*)\n') or ''))
    local entry = ids[from + 2 * i - 2]:match('^cron:(.+):%d+$')
    if entry then note('c' .. entry) end
  end
end
local reply = #found < LOOKED_AT and { '', '' } or { ids[#ids], ids[#ids - 1] }
for i = 4, #ARGV do reply[#reply + 1] = numbers[ARGV[i]] or 0 end
return reply
