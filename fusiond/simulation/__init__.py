"""
What would happen: a load is replayed against a file, with a virtual clock.

    loads.py             which jobs arrive when, how long their attempts run, how these end
    load_files.py        loads written by hand
    recordings.py        recorded loads
    virtual_redis.py     a server for the simulation alone; its clock is what the simulation says
    simulated_groups.py  the worker groups: which jobs they claim, how their attempts end
    simulated_ticks.py   the cron entries
    replay.py            the events of a simulation, in their order
    figures.py           what is counted, and the result
    variants.py          simulates one file, with a server of its own
    result_tables.py     one result, or two side by side, as tables
    promises.py          the tests of a file: what must hold in a simulation of it
    promise_reports.py   tests that were run, in the formats of `fusiond test`

The scripts in Redis and the functions of the dispatcher and the scheduler decide. No rule of theirs stands here.
"""
