-- What a job causes in other queues, for example when it ends. (needs now, queue, batches, job, ready)
-- A script touches one queue only. What it has for another queue it puts into the effects of its own queue, together
-- with its other writes. Dispatchers and sweeps deliver the effects (effects.lua, deliver.lua).
-- ns:{q}:effects           HASH  target queue -> the highest number of an entry for it so far
-- ns:{q}:effects:<target>  LIST  "<number> <entry>", in the order of the numbers; the entry is a MessagePack list of
--                               texts: its kind, then the arguments of the function of that name in deliver.lua
-- A number is above all earlier numbers of the target, and never below the clock: a Redis that has lost data gives no
-- number twice. A job's field `follow` has these letters:
--   s, f  its header has a callback for its success, for its failure
--   c     other jobs wait for it: ns:{q}:children:<id>
--   d     it waits for others, or did so when it ended: ns:{q}:parents:<id> (after.lua)
-- this call has put something into the effects, or an earlier one whose reply may be lost
local has_posted = false
local announces = true            -- whether to publish that there are effects; not if the script's reply says so
local posted = {}                 -- target -> {entry, …}
-- post(target, kind, …): notes an entry, which `write_posted` puts into the effects; each value is a text
local function post(target, ...)
  posted[target] = posted[target] or {}
  add(posted[target], cmsgpack.pack({ ... }))
  has_posted = true
end
local function write_posted()
  local effects = ROOT .. ':effects'
  for target, list in pairs(posted) do
    local last = math.max(tonumber(redis.call('HGET', effects, target)) or 0, now * 1000)
    for i, entry in ipairs(list) do list[i] = whole(last + i) .. ' ' .. entry end
    redis.call('HSET', effects, target, whole(last + #list))
    call_in_batches('RPUSH', effects .. ':' .. target, list)
  end
  if announces and next(posted) then redis.pcall('PUBLISH', WAKE, 'effects') end
  posted = {}
end

-- error_text(raw): code and message of an error document
local function error_text(raw)
  local good, found = pcall(cjson.decode, raw or '')
  if not good or type(found) ~= 'table' then return 'it failed' end
  local said = tostring(found.code) .. ': ' .. tostring(found.message)
  return said:sub(1, 500)
end
-- notify_run(status, h): a job that is a step of a flow has ended: tells the run. The field `flow` is "<queue of the
-- run> <run> <step> <number> <round> <1: its result is needed>". It has begun with its first attempt
local LETTER = { finished = 'f', failed = 'x', canceled = 'c' }
-- times_of(began, ended): the times behind the letter of an end; empty: the job has not begun
local function times_of(began, ended)
  return began and whole(began) .. '+' .. whole(math.max(ended - began, 0)) or ''
end
local function notify_run(status, h)
  local target, run, step, n, round, keep = h.flow:match('^(%S+) (%S+) (%S+) (%d+) (%d+) (%d)$')
  if not target then return end
  local payload = status ~= 'finished' and error_text(h.error) or keep == '1' and h.result or ''
  local began = finite((h.history or ''):match('.*"claimed":([1-9]%d*)')) or finite(h.started_at)
  post(target, 'step_end', run, step, n, round, LETTER[status] .. times_of(began, finite(h.ended_at) or now), payload)
end

-- make_follower(): created once in a call, and only if a job causes something in another queue
local function make_follower()
  local LARGEST = 65536           -- bytes of a value that a callback gets
  local CALLBACK = { finished = 's', failed = 'f' }

  -- string_end(raw, at): where the JSON string ends that begins there
  local function string_end(raw, at)
    repeat
      at = raw:find('["\\]', at + 1)
      if raw:byte(at) == 34 then return at end
      at = at + 1
    until false
  end
  -- value_end(raw, at): the first byte after the value that begins there. Raises an error if it is not JSON
  local function value_end(raw, at)
    local first, depth = raw:byte(at), 0
    if first == 34 then return string_end(raw, at) + 1 end
    if first ~= 91 and first ~= 123 then return raw:find('[%s,%]}]', at) or #raw + 1 end
    repeat
      at = raw:find('["%[%]{}]', at)
      local char = raw:byte(at)
      if char == 34 then at = string_end(raw, at) else depth = depth + ((char == 91 or char == 123) and 1 or -1) end
      at = at + 1
    until depth == 0
    return at
  end
  -- members(raw): the values of a list or object, unchanged, by index or name: what cjson has decoded must not be
  -- encoded again
  local function members(raw)
    local found, at = {}, raw:find('[%[{]') + 1
    local is_object = raw:byte(at - 1) == 123
    repeat
      at = raw:find('[^%s,]', at)
      if raw:find('^[%]}]', at) then return found end
      local name = #found + 1
      if is_object then
        local past = string_end(raw, at) + 1
        name = cjson.decode('[' .. raw:sub(at, past - 1) .. ']')[1]
        at = raw:find('[^%s:]', past)
      end
      local past = value_end(raw, at)
      found[name] = raw:sub(at, past - 1)
      at = past
    until false
  end

  -- arguments(id, h): args and kwargs of a job as raw JSON; nil: they are too large
  local function arguments(id, h)
    if tonumber(h.large or #h.args) > LARGEST or not with_args(id, h) then return nil end
    local good, found = pcall(members, h.args)
    if not good then return nil end
    return found[1] or found.args or '[]', found[2] or found.kwargs or '{}'
  end

  -- callback_event(id, status, h): the argument of a callback, as JSON
  local function callback_event(id, status, h)
    local args, kwargs = arguments(id, h)
    local truncated, parts = args == nil, {}
    local function add_value(name, value)
      if value and #value > LARGEST then truncated, value = true, nil end
      add(parts, '"' .. name .. '":' .. (value or 'null'))
    end
    for _, name in ipairs({ 'id', 'queue', 'task', 'status' }) do
      add_value(name, cjson.encode(({ id = id, queue = ROOT:match('{(.*)}$'), task = h.task, status = status })[name]))
    end
    add_value('args', args)
    add_value('kwargs', kwargs)
    add_value('result', status == 'finished' and h.result)
    add_value('error', status ~= 'finished' and h.error)
    add_value('attempts', whole(count(h.attempts)))
    add_value('created_at', ('%.3f'):format((finite(h.created_at) or now) / 1000))
    add_value('ended_at', ('%.3f'):format(now / 1000))
    add_value('truncated', tostring(truncated))
    return '{' .. table.concat(parts, ',') .. '}'
  end

  -- post_callback(id, status, h): posts the job of the callback. Its id depends only on this job, its round and the
  -- time: a job that was requeued may end again in the same millisecond
  local function post_callback(id, status, h)
    local good, header = pcall(cjson.decode, h.header or '')
    local wanted = good and (header.follow or {})[status == 'finished' and 'on_success' or 'on_failure']
    if type(wanted) ~= 'table' or type(wanted.queue) ~= 'string'
      or not wanted.queue:find('^[%w_.:@-]+$') then return end
    local body = '"event":' .. callback_event(id, status, h)
    local url = wanted.url and cjson.encode(wanted.url)
    if url then body = '"url":' .. url .. ',"body":{' .. body .. '},"allow_private":true' end
    local ending = table.concat({ ROOT, id, whole(count(header.round)), whole(now) }, ' ')
    local name = 'cb-' .. redis.sha1hex(ending):sub(1, 24)
    local priority, expires = whole(count(wanted.priority)), whole(count(wanted.expires))
    post(wanted.queue, 'enqueue', name, wanted.task, '[[],{' .. body .. '}]', priority, expires, wanted.unique or '')
  end

  -- notify_children(id, status): tells each job that waits for this one that it has ended
  local function notify_children(id, status)
    local key, first = ROOT .. ':children:' .. id, 0
    repeat
      local page = redis.call('LRANGE', key, first, first + 999)
      for _, entry in ipairs(page) do
        local queue, child, name = entry:match('^([^/ ]+)/(%S+) (%S+)$')
        if queue then post(queue, 'parent_ended', child, name, status) end
      end
      first = first + #page
    until #page == 0
    redis.call('DEL', key)
  end

  return function(id, status, h)
    if h.follow:find('c') then notify_children(id, status) end
    if h.follow:find('d') then
      redis.call('DEL', ROOT .. ':parents:' .. id)
      redis.call('ZREM', ROOT .. ':expiring', id)
    end
    if CALLBACK[status] and h.follow:find(CALLBACK[status]) then post_callback(id, status, h) end
  end
end
local handler
-- follow_up(id, status, h): the job has ended: does what its field `follow` says
local function follow_up(id, status, h)
  handler = handler or make_follower()
  handler(id, status, h)
end
