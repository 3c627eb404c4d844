-- What an outbox has handed over: each of its jobs leaves a marker, in the same script that stores the job. So a row
-- that is read again, since its DELETE did not come to pass, is not stored twice. (needs now, queue, batches)
--
-- ns:{q}:handed:<outbox>  ZSET  id of the row and the job -> -<ms at which it was marked>, while the row may be there;
--                               afterwards the time until which the marker is kept, ms
--
-- ARGV begins with the name of the outbox, and the time from which on the call comes too late, ms. Both are taken off.
local HANDED = ROOT .. ':handed:' .. table.remove(ARGV, 1)
local deadline = tonumber(table.remove(ARGV, 1))
if now > deadline then return 'late' end
-- a key of another type raises an error here, before any write: a repeat would take what was stored for the whole
for _, key in ipairs({ HANDED, QUEUE, SCHEDULED }) do redis.call('ZCARD', key) end
ARGV.handed = {
  -- has(id): whether the row was handed over before
  has = function(id) return redis.call('ZSCORE', HANDED, id) end,
  -- mark(replies): the jobs that need not be handed over again
  mark = function(replies)
    local marks, first = {}, 1
    for _, reply in ipairs(replies) do
      if reply == '0' or reply == '1' or reply == '4' then
        marks[#marks + 1], marks[#marks + 2] = whole(-now), ARGV[first]
      end
      first = first + 5 + 2 * ARGV[first + 4]
    end
    call_in_batches('ZADD', HANDED, marks)
    redis.call('PERSIST', HANDED)
  end,
}
