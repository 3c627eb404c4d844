-- The text of a new job, in the format of job.lua. (needs now)
local LARGE, ARGS = 1024, '/args'  -- bytes
-- escape(value): any text as one word; a blank becomes a plus
local function escape(value)
  if type(value) == 'number' then return whole(value) end
  if not value:find('[^%w_.:,-]') then return value end
  return (value:gsub('[^%w_.:, -]', function(other) return ('%%%02X'):format(other:byte()) end):gsub(' ', '+'))
end
-- unescape(text): the reverse of `escape`
local function unescape(text)
  if not text:find('[+%%]') then return text end
  return (text:gsub('+', ' '):gsub('%%(%x%x)', function(hex) return string.char(tonumber(hex, 16)) end))
end
-- new_text(task, header, args, words): words: the length of large arguments, then the words of its state that follow
-- `c` and `l`
local CREATED = 'c' .. whole(now) .. ' l'
local function new_text(task, header, args, words)
  return CREATED .. #task .. ',' .. #header .. words .. '\n' .. task .. '\n' .. header .. '\n' .. args
end
