"""
The chaos harness: a real daemon under load and under fire, and the proof from logs that no job came to harm.

    package.py    the code under test: a copy with a shorter lease, a log of the protocol, maybe a seeded bug
    work.py       the application: each run leaves two lines
    plant.py      a daemon that runs it, and its processes by kind
    load.py       the producer: each acknowledged enqueue
    faults.py     kills and stops, each noted
    ledger.py     the logs, read
    verdict.py    the invariants, judged from the ledger alone
    report.py     the figures
    bugs.py       seeded bugs that the verdict must find

`python -m tests.chaos --help` says how to run it.
"""
