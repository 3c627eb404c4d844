-- include: now
--
-- move_clock(queue): the clock by which `move_copy` judges how long ago the jobs were read.
--
-- KEYS  1 ns:{q}
-- reply epoch ms
--
-- moves nothing
-- touches nothing

return now
