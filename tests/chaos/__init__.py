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
    bugs.py       seeded bugs that the verdict must find, and what brings each of them out
    hunt.py       the hunt for them

`python -m tests.chaos --help` says how to run it.
"""
