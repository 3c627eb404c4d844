-- include: now queue ticks
--
-- note_tick(queue, entry, tick, word): a tick was passed over
--
-- KEYS  1 ns:{q}
-- ARGV  1 entry · 2 tick, epoch ms · 3 overlap | suspended | missed
-- reply nil
--
-- moves nothing
-- touches ticks

note_tick(unpack(ARGV))
