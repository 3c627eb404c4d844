-- A job is one text, ns:{q}:job:<id>. Only this file reads and writes it. (needs now, queue, score, text)
--   <word> <word> …\n<task>\n<header>\n<args>[\n<result>][\n<error>][\n<history>][\n<progress>]
-- A word is a letter and a value, in the order of WORDS; only fields that are set have one. Times are ms after
-- `created_at`. `l` has the lengths of task and header and, if the arguments are large, their length: these have a key
-- of their own, ns:{q}:job:<id>/args, so that only what needs them copies them, and their line is empty. A word with an
-- unknown letter comes from a newer version: it is kept unchanged, behind the others.
-- make_codec(): decode and encode, which the hot paths do not use; so a call creates them only when it needs them
local function make_codec()
  local WORDS = {                 -- in this order: letter, field
    't', 'token', 'z', 'last_token', 'c', 'created_at', 'l', 'lengths', 'x', 'expires_at', 'b', 'started_at',
    'q', 'queued_at', 'k', 'crashes', 'r', 'rescues', 'i', 'interrupted', 'm', 'permit', 'w', 'snoozed_since',
    'a', 'cancel', 'y', 'unique', 'f', 'follow', 'g', 'flow', 'o', 'last_outcome', 'n', 'attempts', 'p', 'limit',
    's', 'score', 'v', 'priority', 'u', 'ran_with',
    'e', 'ended_at', 'R', 'result', 'E', 'error', 'H', 'history', 'G', 'progress',
  }
  local NAME = {}                 -- letter -> field
  for i = 1, #WORDS, 2 do NAME[WORDS[i]] = WORDS[i + 1] end
  local AFTER_CREATION = { 'expires_at', 'started_at', 'queued_at', 'snoozed_since', 'ended_at' }

  -- last_line(text, last, length): the last line of the text up to `last`, if it has that length; where the line before
  -- it ends, 0: there is none
  local function last_line(text, last, length)
    if not length then return nil, last end
    local before = last - (tonumber(length:match('^%d+$')) or last)
    if text:byte(before) ~= 10 then return nil, 0 end
    return text:sub(before + 1, last), before - 1
  end

  -- decode(text): the job's fields, each a text; nil: this is not a job. With large arguments it has their length,
  -- `large`, and no `args`
  local function decode(text)
    local state, at = text:match('^([^\n]*)\n()')
    if not state then return nil end
    local h = {}
    for letter, value in state:gmatch('([^ ])([^ ]*)') do
      if NAME[letter] then
        h[NAME[letter]] = unescape(value)
      elseif letter:find('%a') then
        h.others = (h.others or '') .. ' ' .. letter .. value
      else
        return nil
      end
    end
    local created = finite(h.created_at)
    for _, name in ipairs(created and AFTER_CREATION or {}) do
      h[name] = finite(h[name]) and whole(created + h[name]) or h[name]
    end
    local task, header, large = (h.lengths or ''):match('^(%d+),(%d+),?(%d*)$')
    if not task or not h.created_at then return nil end
    local last = #text
    h.progress, last = last_line(text, last, h.progress)
    h.history, last = last_line(text, last, h.history)
    h.error, last = last_line(text, last, h.error)
    h.result, last = last_line(text, last, h.result)
    local header_at = at + task + 1
    local args_at = header_at + header + 1
    if task == '0' or args_at > last + 1 then return nil end
    if text:byte(header_at - 1) ~= 10 or text:byte(args_at - 1) ~= 10 then return nil end
    h.task, h.lengths = text:sub(at, header_at - 2), nil
    if header ~= '0' then h.header = text:sub(header_at, args_at - 2) end
    if large == '' then h.args = text:sub(args_at, last) else h.large = large end
    return h
  end

  -- encode(h): the text of a job
  local function encode(h)
    local header, created, times, state = h.header or '', finite(h.created_at), {}, {}
    for _, name in ipairs(created and AFTER_CREATION or {}) do times[name] = finite(h[name]) and h[name] - created end
    for i = 1, #WORDS, 2 do
      local letter, value = WORDS[i], times[WORDS[i + 1]] or h[WORDS[i + 1]]
      if letter == 'l' then
        value = #h.task .. ',' .. #header .. (h.large and ',' .. h.large or '')
      elseif letter == 'R' or letter == 'E' or letter == 'H' or letter == 'G' then
        value = value and #value
      end
      if value and value ~= '' then state[#state + 1] = letter .. escape(value) end
    end
    local text = { table.concat(state, ' ') .. (h.others or ''), h.task, header, h.large and '' or h.args }
    text[#text + 1] = h.result
    text[#text + 1] = h.error
    text[#text + 1] = h.history
    text[#text + 1] = h.progress
    return table.concat(text, '\n')
  end

  -- add_to_history(h, outcome, about, printed): adds an entry: an attempt has ended, or something else has happened to
  -- the job. `about`: more members of the JSON object, each behind a comma. `printed`: JSON of the attempt's output;
  -- nil or empty: keeps the output that is there
  local MOST = 20                 -- entries
  local function add_to_history(h, outcome, about, printed)
    local before, entries = (h.history or '\n'):match('^([^\n]*)\n(.*)$')
    local at = 0
    for _ = 2, MOST do at = at and entries:find('\n', at + 1, true) end
    if printed and printed ~= '' then before = '{"attempt":' .. count(h.attempts) .. ',"text":' .. printed .. '}' end
    local entry = '{"attempt":' .. count(h.attempts) .. ',"outcome":' .. cjson.encode(outcome)
      .. ',"claimed":' .. whole(finite(h.started_at) or 0) .. ',"settled":' .. whole(now) .. about .. '}\n'
    h.history = before .. '\n' .. entry .. (at and entries:sub(1, at) or entries)
  end

  return { decode = decode, encode = encode, add_to_history = add_to_history }
end
local codec
local function decode(text)
  codec = codec or make_codec()
  return codec.decode(text)
end
local function encode(h)
  codec = codec or make_codec()
  return codec.encode(h)
end
-- `codec.add_to_history` exists once a job was decoded

-- large_args(id, length): the arguments of a job whose arguments have a key of their own; nil: they are gone, or have
-- another length
local function large_args(id, length)
  local args = redis.pcall('GET', JOB .. id .. ARGS)
  return type(args) == 'string' and #args == tonumber(length) and args or nil
end
-- with_args(id, h): the same fields, with large arguments too; nil: these are gone
local function with_args(id, h)
  if h and h.large then h.args = large_args(id, h.large) end
  return h and h.args and h or nil
end
-- load_job(id): the fields of a job; nil: there is no key, or it does not hold a job
local function load_job(id)
  local text = redis.pcall('GET', JOB .. id)
  return type(text) == 'string' and with_args(id, decode(text)) or nil
end
local function save_job(id, h) redis.call('SET', JOB .. id, encode(h)) end
local PAGE = 50                   -- jobs whose texts a command reads or writes; few, for the reason in batches.lua
-- write_texts(list): list: key, text, …
local function write_texts(list)
  for first = 1, #list, 2 * PAGE do redis.call('MSET', unpack(list, first, math.min(first + 2 * PAGE - 1, #list))) end
end
-- append_job(list, id, h): adds a new job to what `write_texts` is to store
local function append_job(list, id, h)
  if #h.args >= LARGE then
    h.large = #h.args
    list[#list + 1], list[#list + 2] = JOB .. id .. ARGS, h.args
  end
  list[#list + 1], list[#list + 2] = JOB .. id, encode(h)
end
-- texts_of(list, first, last): the texts of the jobs whose ids are every second word of the list from first to last,
-- PAGE at most; false for a key that is missing or of another type
local function texts_of(list, first, last)
  local keys = {}
  for i = first, last, 2 do keys[#keys + 1] = JOB .. list[i] end
  return redis.call('MGET', unpack(keys))
end
local function delete_jobs(ids)
  for first = 1, #ids, PAGE do
    local keys = {}
    for i = first, math.min(first + PAGE - 1, #ids) do
      keys[#keys + 1], keys[#keys + 2] = JOB .. ids[i], JOB .. ids[i] .. ARGS
    end
    redis.call('UNLINK', unpack(keys))
  end
end
-- state_of(id): the words of its state, without its texts, which may be long; nil: it has none
local function state_of(id)
  local head = redis.pcall('GETRANGE', JOB .. id, 0, 1023)
  return type(head) == 'string' and head:match('^([^\n]*)\n') or nil
end
-- time_in(state, letter): one of its times; nil: it has none
local function time_in(state, letter)
  state = ' ' .. state
  local created, ms = state:match(' c(%d+)'), letter == 'c' and 0 or state:match(' ' .. letter .. '(%-?%d+)')
  return created and ms and created + ms or nil
end
-- time_of(id, letter): one of the times of a job; nil: it has none
local function time_of(id, letter)
  local state = state_of(id)
  return state and time_in(state, letter)
end
-- state_if_held(id, token): the state of the job if the attempt with this token holds it
local function state_if_held(id, token)
  local state, mark = state_of(id), 't' .. escape(token) .. ' '
  return state and state:sub(1, #mark) == mark and state or nil
end
-- field_list(h): field, value, …
local function field_list(h)
  local fields = {}
  h.large = nil
  for name, value in pairs(h) do fields[#fields + 1], fields[#fields + 2] = name, value end
  return fields
end
