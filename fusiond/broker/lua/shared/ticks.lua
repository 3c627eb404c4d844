-- What became of the ticks of cron entries whose jobs or runs are in this queue. (needs now, queue)
-- ns:{q}:ticks:<entry>  STREAM  in the field `t`, "<tick> <note>"; of the notes about a tick the last one holds
--   <digit>             as in the reply of tick.lua; an `r` follows if it starts a run of a flow
--   <f | x | c> <ms>    its job or run has finished, failed or was canceled; how long after it began, or empty
--   overlap | suspended | missed      it was passed over
local TICKS = ROOT .. ':ticks'
-- note_tick(entry, tick, note): adds a note; a tick has two as a rule, so that 10,000 ticks are kept, for 400 days
local function note_tick(entry, tick, note)
  redis.call('XADD', TICKS .. ':' .. entry, 'MAXLEN', '~', 20000, '*', 't', tick .. ' ' .. note)
  redis.call('PEXPIRE', TICKS .. ':' .. entry, 34560000000)
end
-- note_end(id, letter, began): a job or a run has ended; if it is that of a tick, this is noted, and when a job of the
-- entry finished last
local function note_end(id, letter, began)
  local entry, tick = id:match('^cron:(.+):(%d+)$')
  if not entry then return end
  note_tick(entry, tick, letter .. ' ' .. (began and whole(math.max(now - began, 0)) or ''))
  if letter == 'f' then redis.call('HSET', TICKS, entry .. ' success', whole(now)) end
end
