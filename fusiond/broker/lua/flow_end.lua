-- include: now queue flows
--
-- flow_end(queue, run, step, n, round, letter, payload): a job of a step has ended, and no effect will tell its run
--
-- KEYS  1 ns:{q}
-- ARGV  1 run · 2 step · 3 number of the job · 4 round · 5 f | x | c · 6 result, or why it failed
-- reply nil
--
-- touches flow advance

end_of_step(unpack(ARGV))
