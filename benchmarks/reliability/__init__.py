"""
Which jobs are lost when workers are killed: fusiond, RQ and Celery under the same load and the same kills.

    schedule.py   what is enqueued and what is killed when, from a seed
    runners.py    each runner, as it comes and as its documentation makes it safest
    unit.py       a service manager in small: what ends is started again
    victims.py    the processes of a runner, by how far they are from its root
    trial.py      one runner under one schedule
    tally.py      what came of each job, from the lines that producer and jobs left
    apps/         what a user of each would write, and the producer

`python -m benchmarks.reliability --help` says how to run it. The peers are installed as those of `benchmarks.peers`.
"""
