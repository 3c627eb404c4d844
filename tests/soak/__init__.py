"""
One daemon for long, reloaded all the while, each job counted, and what it uses of the machine compared.

    soak.py    20 minutes at a third of full speed, a reload each 5 s: nothing grows, no job takes longer
    storm.py   300 reloads of all kinds, invalid ones too, under load: each job runs once, nothing is left behind

`make soak` or `python -m tests.soak` takes 21 minutes; `--seconds 300` is enough for a first look.
`python -m tests.soak.storm` takes some ten minutes. `make test` runs a slice of each, in tests/scenarios/.
"""
