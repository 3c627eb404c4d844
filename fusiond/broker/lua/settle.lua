-- include: now queue batches score text job events wake ready places locks follow tally ticks endings held_tasks
--
-- settle(queue, outcomes): ends attempts.
--
-- KEYS  1 ns:{q}
-- ARGV  if the file asks for events: empty, conf `events`, `<host> <group>`; each payload then begins with a line: the
--       words of its event
--       per group of outcomes: token, kind, ms, extra, why, how many, then of each: id, payload. If the kind is not
--       `finished`, two lines precede the payload: more of the attempt's entry in the history (`,"host":"…",…`), and
--       JSON of what it has printed, or nothing
--         kind finished | failed | canceled   ms: how long to keep the job    payload: result | error | error
--              retry                          ms: delay                       payload: error
--              snoozed                        ms: delay                       payload: error for the end
--              released                       ms: delay, 0: its old score     payload: not empty: the attempt had begun
--                                                                             `drained`: the job no longer expires, too
--              refused                        by a pool    ms: 0: its old score; else its task holds it, or this delay
--              unknown                        ms: delay if too many tasks are unknown   payload: error for the end
--         extra  snoozed: `<ms from its first snooze after which it fails> <ms to keep it then>`; finished:
--                `<CPU ms>,<peak MiB>,<generation>,<release>`; else 1: crashed
--         why    `last_outcome`; empty: the kind says it
--       after the groups, if outcomes are counted: an empty word, then what tally.lua counts of each, and the tasks
-- reply per outcome: 1 settled · 2 this attempt was settled before · 0 fenced: the lease was lost
--       of an outcome that does not end the job: 3 it has failed instead · 4 it was canceled instead; repeats, too
--       plus 8 in one of them: this queue has effects
--
-- moves started -> finished | failed | canceled
--               -> scheduled    retry, attempt counted; snoozed, released with a delay: attempt not counted
--               -> queue        released, its old score, attempt not counted
--               -> canceled     retry, snoozed, released, unknown or refused, if a cancel was asked
--               -> held         unknown: that host lacks the task, or cannot load its function; attempt not counted
--               -> failed       snoozed for too long
--               -> held | queue  refused: as if it had not been claimed
--       held    -> queue        the best one of a limit with a free place
-- Each call deletes as many ended jobs that need no longer be kept as it adds, and a few more.
-- touches started queue held places scheduled finished failed canceled job unique ticks effects events metrics wake

redis.call('ZREM', STARTED, '')
local TOO_LONG = 'snoozed too long'
local GOES_ON = { retry = true, snoozed = true, released = true, unknown = true, refused = true }
local replies, latest = {}, {}     -- latest: id -> the text that a job has by now
local settled = {}                -- texts to write: {key, text, …}
local is_stale                    -- numbers of the outcomes whose attempts do not hold their jobs

local function put(id, text)
  latest[id] = text
  add(settled, JOB .. id, text)
end

-- How a job in its first attempt ends: its state before and after its priority, up to the length of the result. Jobs
-- claimed together often have the same state, so the result is kept. false: another job
local FIRST_ATTEMPT = {}          -- state up to the job's score -> how it ends
local function first_attempt(state)
  local words, created = state:match('^t(%S+ c(%d+) l[%d,]+ b%d+ n1)$')
  if not words then words, created = state:match('^t(%S+ c(%d+) l[%d,]+ x%d+ b%d+ n1)$') end
  local limit
  if not words then words, created, limit = state:match('^t(%S+ c(%d+) l[%d,]+ b%d+ n1) p(%-)$') end
  return words and {
    before = 'z' .. words, behind = ' e' .. now - created .. ' R', limit = limit,
      claimed = created + words:match(' b(%d+)'),
  } or false
end

local function record_finished(id, text, first, result, event_words)
  local task, header = text:match('\n([^\n]*)\n([^\n]*)')
  local since, words = ' b' .. whole(now - first.claimed), header == '' and '' or events.header_words(header)
  events.record('finished', id, task, since .. event_words .. words .. events.payload_word('r', result))
end
-- finish(): the hot path is a job in its first attempt: only its first and last words change. ran_with: as a word
local function finish(id, text, token, ttl, result, why, event_words, ran_with)
  local at = text:find(' s', 1, true) or 1
  local score, state, h = text:match('^(%d+)\n', at + 2), text:sub(1, at - 1), nil
  local first = FIRST_ATTEMPT[state]
  if first == nil then
    first = first_attempt(state)
    FIRST_ATTEMPT[state] = first
  end
  if first and score and why == '' then
    leave_started(id, first.limit)
    if events then record_finished(id, text, first, result, event_words) end
    local rest = text:sub(at + 2 + #score) .. '\n' .. result
    put(id, first.before .. ' v' .. priority_of(score) .. ran_with .. first.behind .. #result .. rest)
  else
    h = decode(text)
    leave_started(id, h.limit)
    -- the outcome of an earlier attempt must not look like that of this one
    if why ~= '' or h.last_outcome then h.last_outcome = why ~= '' and why or 'finished' end
    h.result, h.ended_at, h.token, h.last_token, h.limit = result, now, nil, token, nil
    score = finite(h.score)
    h.priority, h.score, h.ran_with = score and priority_of(score), nil, unescape(ran_with:sub(3))
    put(id, encode(h))
    if events then events.record_ended('finished', id, h, since_claim(h) .. event_words) end
  end
  register_ended(id, 'finished', ttl, h, first and first.claimed)
end

-- make_unfinished(): created once in a call, and only if an attempt did not finish: creating functions takes a script
-- as long as using them
local function make_unfinished()
  local about, printed, crash, interrupted  -- of the current attempt, for its history
  local event_words               -- of the current attempt, for its event

  -- end_attempt(): of an attempt that did not finish. undone: more members of its entry in the history, if it is not
  -- counted
  local function end_attempt(h, outcome, err, undone)
    codec.add_to_history(h, outcome, (undone or crash) .. about, printed)
    h.last_token, h.token, h.last_outcome = h.token, nil, outcome
    if err ~= '' then h.error = err end
  end

  -- stop(): failed or canceled
  local function stop(id, h, status, ttl, err, why)
    end_attempt(h, why ~= '' and why or status, err)
    h.ended_at = now
    register_ended(id, status, ttl, h)
    if events then events.record_ended(status, id, h, event_words) end
  end

  local function retry(id, h, delay, err, why)
    end_attempt(h, why ~= '' and why or 'retry', err)
    if events then events.record_ended('retry', id, h, event_words .. ' u' .. whole(delay)) end
    add(scheduled, whole(now + delay), id)
  end

  -- hold(): it waits for a claim whose caller has its task; false: there are too many such tasks
  local function hold(id, h, err)
    if not add_name(h.task) then return false end
    if events then events.record_job('held', id, h) end
    watch_expiry(id, h)
    h.score = whole(finite(h.score) or 254 * BAND)
    -- waiting dispatchers must be woken
    has_free_place = hold_jobs(h.task, { h.score, id }, err) or has_free_place
    return true
  end

  -- undo(): the attempt is not counted; err: why its task cannot run on that host
  local function undo(id, h, delay, err)
    h.attempts = math.max(count(h.attempts), 1) - 1
    if err and hold(id, h, err) then return end
    if delay > 0 then
      add(scheduled, whole(now + delay), id)
    else
      return_to_ready(id, whole(finite(h.score) or 254 * BAND))
    end
  end

  -- release(): the attempt is in the history, as undone
  local function release(id, h, delay, why, err)
    end_attempt(h, why ~= '' and why or 'released', '', ',"undone":true' .. interrupted)
    local words = event_words and event_words .. ' u' .. whole(delay) .. ' m' .. escape(h.last_outcome)
    if events then events.record_job(why == 'snoozed' and why or 'released', id, h, words) end
    undo(id, h, delay, err)
  end

  -- refuse(): a pool has too little for it: its history does not tell of this
  local function refuse(id, h, delay)
    h.token, h.last_token, h.last_outcome = nil, h.token, 'released'
    if events and delay == 0 then events.record_job('released', id, h) end
    undo(id, h, delay, delay > 0 and '')
  end

  -- snooze(): the attempt is not counted, but the time since the first snooze; ends the job if that is too long
  local function snooze(id, h, delay, err, extra)
    local longest, ttl = extra:match('^(%d+) (%d+)$')
    h.snoozed_since = finite(h.snoozed_since) or now
    if now - h.snoozed_since >= tonumber(longest) then
      stop(id, h, 'failed', ttl, err, TOO_LONG)
      return 3
    end
    h.error = err
    release(id, h, math.max(delay, 1), 'snoozed')
  end

  -- settle_unfinished(): returns the reply if it is not 1
  local function settle_unfinished(id, h, kind, ms, payload, why, extra, words)
    local crashes_before = h.crashes
    event_words = words and since_claim(h) .. words
    interrupted = ''
    about, printed, payload = payload:match('^([^\n]*)\n([^\n]*)\n(.*)$')
    if kind ~= 'snoozed' and extra == '1' then h.crashes = count(h.crashes) + 1 end
    crash = h.crashes ~= crashes_before and ',"crash":true' or ''
    if kind == 'retry' then h.snoozed_since = nil end
    if kind == 'failed' or kind == 'canceled' then
      stop(id, h, kind, ms, payload, why)
    elseif h.cancel then
      stop(id, h, 'canceled', h.cancel, failure('CANCELED', 'it was canceled while it ran'), 'canceled')
      return 4
    elseif kind == 'retry' then
      retry(id, h, ms, payload, why)
    elseif kind == 'snoozed' then
      return snooze(id, h, ms, payload, extra)
    elseif kind == 'refused' then
      refuse(id, h, ms)
    else
      h.crashes = crashes_before
      if kind == 'released' and payload ~= '' then
        h.interrupted, interrupted = count(h.interrupted) + 1, ',"interrupted":true'
        if payload == 'drained' then h.expires_at = nil end
      end
      release(id, h, ms, why, kind == 'unknown' and payload)
    end
  end

  -- reply_to_stale(text, token, kind): the reply to an attempt that does not hold the job
  local function reply_to_stale(text, token, kind)
    local h = text and decode(text)
    if not h or h.last_token ~= token then return 0 end
    has_posted = has_posted or h.follow ~= nil or h.flow ~= nil
    if GOES_ON[kind] and (h.last_outcome == 'failed' or h.last_outcome == TOO_LONG) then return 3 end
    return GOES_ON[kind] and h.last_outcome == 'canceled' and 4 or 2
  end

  return { settle = settle_unfinished, reply_to_stale = reply_to_stale }
end
local unfinished

-- settle_some(first, last, …): outcomes that differ only in id and payload, which are in ARGV from first to last
local function settle_some(first, last, token, kind, ms, extra, why)
  local texts, mark = texts_of(ARGV, first, last), 't' .. escape(token) .. ' '
  local ran_with = extra:find(',', 1, true) and ' u' .. escape(extra) or ''
  for i = first, last, 2 do
    local id, payload, event_words = ARGV[i], ARGV[i + 1], nil
    if events then event_words, payload = payload:match('^([^\n]*)\n(.*)$') end
    local text = latest[id] or texts[(i - first) / 2 + 1]
    local reply
    if not text or text:sub(1, #mark) ~= mark then
      unfinished, is_stale = unfinished or make_unfinished(), is_stale or {}
      reply, is_stale[#replies + 1] = unfinished.reply_to_stale(text, token, kind), true
    elseif kind == 'finished' then
      finish(id, text, token, ms, payload, why, event_words, ran_with)
    else
      local h = decode(text)
      leave_started(id, h.limit)
      h.limit = nil
      unfinished = unfinished or make_unfinished()
      reply = unfinished.settle(id, h, kind, ms, payload, why, extra, event_words)
      put(id, encode(h))
    end
    replies[#replies + 1] = reply or 1
  end
  write_texts(settled)
  settled = {}
end

local at = 1
if ARGV[1] == '' then
  read_events(ARGV[2], ARGV[3])
  at = 4
end
while (ARGV[at] or '') ~= '' do
  local first, past = at + 6, at + 6 + 2 * ARGV[at + 5]
  for page = first, past - 1, 2 * PAGE do
    local past_page = math.min(page + 2 * PAGE, past)
    settle_some(page, past_page - 1, ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3], ARGV[at + 4])
  end
  at = past
end

announces = false
write_endings()
if ARGV[at] then tallies().count_outcomes(at + 1, replies, is_stale) end
if has_posted then replies[#replies] = replies[#replies] + 8 end
if write_ready() then wake() end
if events then events.write() end
return replies
