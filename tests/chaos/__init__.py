"""
The chaos harness: a real daemon under load and under fire, and the proof from logs that no job came to harm.

    package.py    the code under test: a copy with a shorter lease, a log of the protocol, maybe a seeded bug
    work.py       the application: each run leaves two lines
    plant.py      a daemon that runs it, and its processes by kind
    load.py       the producer: each acknowledged enqueue; and the operator, who cancels and requeues
    faults.py     kills, stops and cut connections, each noted
    trial.py      one trial from start to ledger
    ledger.py     the logs, read
    blame.py      which fault explains what
    verdict.py    the invariants, judged from the ledger alone
    report.py     the figures
    situations.py what some invariants need for themselves, each in a file of its own:
    frozen.py     I10: one process that is frozen for good, and the jobs that must not stay started
    conservation.py  I11: bursts and long jobs over two daemons, and jobs that wait beside an idle child
    moving.py     I12: cron entries while their task moves between queues, files and hosts
    capacity.py   I14: failures that pass, and the capacity that must return
    rollout.py    I13: roll-outs and roll-backs under changing hosts, and the move of what they leave
    addressing.py I17: commands with -c under files, daemons and pointers in trouble
    attempts.py   I15: jobs that fail, crash and hang, and jobs of `none` whose processes are killed
    expiry.py     I16: jobs that are claimed in time and could begin too late
    locks.py      I19: unique jobs, their locks, and who is alive beside whom
    sequels.py    I24: callbacks and jobs that wait for others
    told.py       I26: events of jobs, and their delivery
    victims.py    I18: cancels, timeouts and kills that come late, and whom they hit
    limits.py     I20: jobs over the limits of their queue and their task, whose processes are killed
    turns.py      I21: tenants of a fair queue, whose workers are killed
    graphs.py     I22: runs of flows whose processes are killed, and their graphs
    scaling.py    I23: a group whose processes follow its load, under reloads
    pools.py      I27: jobs that share the slots of pools, whose processes are killed
    bugs.py       seeded bugs that the verdict must find, and what brings each of them out
    hunt.py       the hunt for them

`python -m tests.chaos --help` says how to run it.
"""
