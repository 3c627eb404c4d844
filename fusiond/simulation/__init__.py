"""
What would happen: a load is replayed against a file, with a virtual clock.

    loads.py          which jobs come when, how long they run, how they end
    recordings.py     the same of a recorded load
    virtual_redis.py  a server for the simulation alone; its clock is what the simulation says
    workers.py        the worker groups: which jobs they claim, how these end
    ticks.py          the cron entries
    run.py            the events of a simulation, in their order
    figures.py        what is counted, and the result
    comparison.py     two results side by side
    promises.py       the tests of a file: what must hold in a simulation of it
    promise_reports.py  tests that were run, in the formats of `fusiond test`

The scripts in Redis and the functions of the dispatcher and the scheduler decide. No rule of theirs stands here.
"""
