-- include: now queue batches score text job events ready follow flows ticks
--
-- flow_write(queue, run, …): writes the record of a run of a flow, unless it has changed since it was read, and starts
-- jobs and runs
--
-- KEYS  1 ns:{q}
-- ARGV  1 id · 2 version that was read; empty: the run is new · 3 ms until it is advanced again; empty: by an end only
--       4 ms to keep it, as it has ended; empty: it has not · 5 its place in a parent: "<run> <step> <number> <round>",
--         or empty · 6 how it has ended, f | x | c · 7 its result, or why it failed
--       8 an event to record if it is written, or empty · 9 who asked for it, or empty
--       10 a list of name and value of fields · how many runs, of each: id, a list of its fields
--       how many jobs, of each: queue, a list of arguments of `enqueue` in deliver.lua
--       a list is its length and its words
-- reply 1 written · 0 it has changed, or exists already
--
-- moves (none) -> queue | scheduled, as effects
-- touches conf flow flows advance events effects

local id, version, again, kept = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local run = FLOW .. id
if (redis.call('HGET', run, 'version') or '') ~= version then return 0 end
if kept or ARGV[8] ~= '' then read_events(redis.call('HGET', CONF, 'events'), as_operator(ARGV[9])) end

local at = 10
local function next_word()
  at = at + 1
  return ARGV[at - 1]
end
local function next_list()
  local count = tonumber(next_word())
  at = at + count
  return unpack(ARGV, at - count, at - 1)
end
-- write_run(name, …): writes its fields
local function write_run(name, ...)
  local is_new = redis.call('HINCRBY', FLOW .. name, 'version', 1) == 1
  redis.call('HSET', FLOW .. name, ...)
  if is_new then redis.call('HSET', FLOW .. name, 'created_at', whole(now)) end
  if is_new and not events then read_events(redis.call('HGET', CONF, 'events')) end
  if is_new and events then events.record('flow.started', '-', '-', ' o' .. escape(name)) end
  redis.call('PERSIST', FLOW .. name)
  redis.call('PERSIST', FLOW .. name .. '/ends')
  redis.call('ZADD', FLOWS, '+inf', name)
end

write_run(id, next_list())
if events and ARGV[8] ~= '' then events.record(ARGV[8], '-', '-', ' o' .. escape(id)) end
for _ = 1, next_word() do
  local child = next_word()
  write_run(child, next_list())
  redis.call('ZADD', ADVANCE, now, child)
end
for _ = 1, next_word() do
  local queue = next_word()
  post(queue, 'enqueue', next_list())
end
write_posted()
if again == '' then redis.call('ZREM', ADVANCE, id) else redis.call('ZADD', ADVANCE, now + again, id) end
if kept then
  redis.call('HSET', run, 'ended_at', whole(now))
  redis.call('PEXPIRE', run, kept)
  redis.call('PEXPIRE', run .. '/ends', kept)
  redis.call('ZADD', FLOWS, now + kept, id)
  drop_runs(100)
  local began = finite(redis.call('HGET', run, 'created_at'))
  local times = times_of(began, now)
  note_end(id, ARGV[6], began)
  local parent, step, n, round = ARGV[5]:match('^(%S+) (%S+) (%d+) (%d+)$')
  if parent then end_of_step(parent, step, n, round, ARGV[6] .. times, ARGV[7]) end
  if events then
    local name = ({ f = 'finished', x = 'failed', c = 'canceled' })[ARGV[6]]
    local reason = name == 'finished' and '' or ' m' .. escape(ARGV[7]:sub(1, 1000))
    events.record('flow.' .. name, '-', '-', ' o' .. escape(id) .. reason)
  end
end
if events then events.write() end
return 1
