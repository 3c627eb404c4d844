-- include: now queue score text job events
--
-- record_event(stream, event, who, once, words): adds an event of a daemon or an operator's command, which no other
-- script records
--
-- KEYS  1 ns:{q}; of the daemons' own stream ns:{/daemons}
-- ARGV  1 event · 2 who asked, or empty · 3, 4 name and value: only the first call with this value records it; or empty
--       then letter and value of each word
-- reply OK
--
-- moves nothing
-- touches conf events

local conf = redis.call('HMGET', CONF, 'events', 'once ' .. ARGV[3])
if not conf[1] or ARGV[3] ~= '' and conf[2] == ARGV[4] then return redis.status_reply('OK') end
read_events(conf[1], as_operator(ARGV[2]))
local words = ''
for i = 5, #ARGV, 2 do words = words .. ' ' .. ARGV[i] .. escape(ARGV[i + 1]) end
if ARGV[3] ~= '' then redis.call('HSET', CONF, 'once ' .. ARGV[3], ARGV[4]) end
events.record(ARGV[1], '-', '-', words)
events.write()
return redis.status_reply('OK')
