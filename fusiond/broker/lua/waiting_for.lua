-- include: now queue score text claims job status
--
-- waiting_for(queue, status, rank, names): how many jobs of a page of those with this status are of these tasks and cron entries.
--
-- KEYS  1 ns:{q}
-- ARGV  1 status · 2 rank of the first job of the page · then names: a task with a t in front, a cron entry with a c
-- reply {how many jobs the page has, of each name how many of them}
--
-- moves nothing
-- touches queue scheduled deferred held job claims

local first, numbers = tonumber(ARGV[2]), {}
local function note(name) numbers[name] = (numbers[name] or 0) + 1 end
local ids = redis.call('ZRANGE', set_of(ARGV[1]), first, first + 499, 'WITHSCORES')
for from = 1, #ids, 2 * PAGE do
  local last = math.min(from + 2 * PAGE - 1, #ids)
  for i, text in ipairs(texts_of(ids, from, last)) do
    note('t' .. ((text or ''):match('^[^\n]*\n([^\n]*)\n') or ''))
    local entry = ids[from + 2 * i - 2]:match('^cron:(.+):%d+$')
    if entry then note('c' .. entry) end
  end
end
local reply = { #ids / 2 }
for i = 3, #ARGV do reply[#reply + 1] = numbers[ARGV[i]] or 0 end
return reply
