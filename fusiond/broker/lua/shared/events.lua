-- The events of the jobs of a queue, in ns:{q}:events, a stream. (needs now, queue, score, job)
-- An entry has the events of one script, in their order. Its id is "<number of its last event>-<how many>", so that a
-- reader sees a gap. `at`: epoch ms. `by`: who did it, if that is known: a dispatcher, `<host> <group>`, or `@` and the
-- name that an operator's command gave. Then event -> lines, each "<job> <task> <word> …". A word is a letter and a
-- value, as in a job's state:
--   n      attempt, if it is not the first
--   b      ms since its claim
--   w      ms that it waited until it began
--   g      ms from its claim to its begin
--   d      ms that it ran
--   u      ms until it may continue; 1e12: others must end first
--   t      log tag
--   p      traceparent
--   o      another job or run
--   c y m  code, type and message of its error
--   a r    arguments and result, if the file asks for them
--   s      status that a repair gave it
--   k      in `audit`: how many further lines this event had
--   h      host of the daemon that the event is about
--   l      ms since it happened
-- An entry that an operator's command writes is also in ns:{q}:audit, with the first lines of each event: so the events
-- of jobs do not push it out. A command that changes many jobs, by several scripts, has one entry there.
-- conf `events`: "<how many are kept> <0|1: with arguments and results>"; missing: the file asks for no events. conf
-- `told`: how many there were so far
local EVENTS, AUDIT = ROOT .. ':events', ROOT .. ':audit'
local events                      -- nil: the file asks for no events
-- make_recorder(wanted): created once in a call, and only if the file asks for events
local function make_recorder(wanted)
  local most, payload = wanted:match('^(%d+) (%d)')
  local ENTRY, ENTRY_BYTES = 500, 65536  -- events, and about how many bytes, in one entry
  local AUDITED, AUDITED_MS, LINES = 20000, 7776000000, 10  -- entries of AUDIT, and their age, about; lines of an event
  local ONE_ACT = 10000           -- ms from one script of a command to the next, at most
  local MESSAGE, PAYLOAD = 1000, 4096  -- bytes of an error's message; of arguments or a result
  local kinds, lines, actor = {}, {}, nil
  payload = payload == '1'

  -- record(event, id, task, words): words: each with a blank before it; nil: none
  local function record(event, id, task, words)
    local n = #kinds + 1
    kinds[n], lines[n] = event, escape(id) .. ' ' .. escape(task) .. (words or '')
  end
  -- header_words(header): log tag and traceparent, which each event of the job has
  local function header_words(header)
    if not header or #header > 65536 then return '' end
    if not (header:find('"log_tag"', 1, true) or header:find('"traceparent"', 1, true)) then return '' end
    local good, read = pcall(cjson.decode, header)
    if not good or type(read) ~= 'table' then return '' end
    return (type(read.log_tag) == 'string' and ' t' .. escape(read.log_tag:sub(1, 255)) or '')
      .. (type(read.traceparent) == 'string' and ' p' .. escape(read.traceparent:sub(1, 255)) or '')
  end
  -- payload_word(letter, text): a word with arguments or a result
  local function payload_word(letter, text)
    return payload and text and ' ' .. letter .. escape(text:sub(1, PAYLOAD)) or ''
  end
  -- error_words(raw): the words of an error document
  local function error_words(raw)
    local good, read = pcall(cjson.decode, raw or '')
    if not good or type(read) ~= 'table' then return '' end
    local said = ''
    for _, name in ipairs({ 'code', 'type', 'message' }) do
      local value, letter = read[name], name == 'type' and 'y' or name:sub(1, 1)
      local most = letter == 'm' and MESSAGE or 255
      if type(value) == 'string' and value ~= '' then said = said .. ' ' .. letter .. escape(value:sub(1, most)) end
    end
    return said
  end
  -- job_words(h): the words that each event of a decoded job has
  local function job_words(h)
    local attempts = count(h.attempts)
    return (attempts ~= 1 and ' n' .. attempts or '') .. header_words(h.header)
  end
  -- record_job(event, id, h, words): an event of a decoded job; words: more words
  local function record_job(event, id, h, words) record(event, id, h.task, job_words(h) .. (words or '')) end
  local function record_enqueued(id, task, header, due, args)
    local due_word = due > now and ' u' .. whole(due - now) or ''
    record('enqueued', id, task, due_word .. header_words(header) .. payload_word('a', args))
  end
  -- record_ended(status, id, h, words): h: with its error or result
  local function record_ended(status, id, h, words)
    local outcome = status == 'finished' and payload_word('r', h.result) or error_words(h.error)
    record_job(status, id, h, (words or '') .. outcome)
  end

  -- recount(count): the counter was lost: continues behind the last entry. A key that is not a stream is renamed
  local function recount(count)
    if redis.call('TYPE', EVENTS).ok ~= 'stream' and redis.call('EXISTS', EVENTS) == 1 then
      redis.call('RENAME', EVENTS, EVENTS .. ':broken:' .. whole(now))
    end
    local last = redis.call('EXISTS', EVENTS) == 1 and redis.call('XREVRANGE', EVENTS, '+', '-', 'COUNT', 1)[1]
    local number = (last and tonumber(last[1]:match('^%d+')) or 0) + count
    redis.call('HSET', CONF, 'told', whole(number))
    return number
  end
  -- shortened(text, further): its first LINES lines, and how many others there are besides `further`
  local function shortened(text, further)
    local at = 0
    for _ = 1, LINES do at = at and text:find('\n', at + 1, true) end
    local _, more = text:sub(at or #text + 1):gsub('\n', '')
    return text:sub(1, at and at - 1) .. (further + more > 0 and ' k' .. whole(further + more) or '')
  end
  -- continued(words): when the act of the last entry began, and its lines with these, where it is one event of jobs, of
  -- the same name and actor, and this goes on with it; that entry is removed. nil: this is another act
  local function continued(words)
    local last = redis.pcall('XREVRANGE', AUDIT, '+', '-', 'COUNT', 1)[1]
    local said = last and last[2] or {}
    if #words ~= 4 or #said ~= 6 or said[4] ~= words[2] or said[5] ~= words[3] then return end
    if words[4]:sub(1, 2) == '- ' or now - last[1]:match('^%d+') > ONE_ACT then return end
    redis.call('XDEL', AUDIT, last[1])
    local kept, further = said[6]:match('^(.*) k(%d+)$')
    return said[2], shortened((kept or said[6]) .. '\n' .. words[4], tonumber(further or 0))
  end
  local function add_entry(first, past, words)
    local size = past - first
    local function added(number)
      local oldest, entry = whole(math.max(0, number - most)), whole(number) .. '-' .. size
      return redis.pcall('XADD', EVENTS, 'MINID', '~', oldest, entry, 'at', whole(now), unpack(words))
    end
    local id = added(redis.call('HINCRBY', CONF, 'told', size))
    if type(id) == 'table' then added(recount(size)) end
    if not actor or actor:sub(1, 1) ~= '@' then return end
    local began, act = continued(words)
    for i = 4, #words, 2 do words[i] = act or shortened(words[i], 0) end
    redis.pcall('XADD', AUDIT, 'MAXLEN', '~', AUDITED, '*', 'at', began or whole(now), unpack(words))
    redis.pcall('XTRIM', AUDIT, 'MINID', '~', whole(now - AUDITED_MS))
  end
  -- write(): comes after all other writes of the script
  local function write()
    local first = 1
    while kinds[first] do
      local words, at, bytes = actor and { 'by', actor } or {}, first, 0
      while kinds[at] and at - first < ENTRY and bytes < ENTRY_BYTES do
        local from, kind = at, kinds[at]
        repeat
          bytes, at = bytes + #lines[at], at + 1
        until kinds[at] ~= kind or at - first >= ENTRY or bytes >= ENTRY_BYTES
        words[#words + 1], words[#words + 2] = kind, table.concat(lines, '\n', from, at - 1)
      end
      add_entry(first, at, words)
      first = at
    end
    kinds, lines = {}, {}
  end
  local function set_actor(name)
    if name and name ~= '' then actor = name:sub(1, 255) end
  end

  return { record = record, record_job = record_job, record_enqueued = record_enqueued, record_ended = record_ended,
    header_words = header_words, payload_word = payload_word, write = write, set_actor = set_actor }
end
-- read_events(wanted, by): wanted: conf `events`; by: who acts
local function read_events(wanted, actor)
  if wanted then
    events = make_recorder(wanted)
    events.set_actor(actor)
  end
end
-- since_claim(h): a word of each event that ends an attempt
local function since_claim(h) return ' b' .. whole(now - (finite(h.started_at) or now)) end
-- as_operator(who): the name as the field `by` has it
local function as_operator(who) return who and who ~= '' and '@' .. who or nil end
