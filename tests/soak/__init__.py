"""
One daemon for long, reloaded all the while, each job counted, and what it uses of the machine compared.

`make soak` or `python -m tests.soak` takes 21 minutes; `--seconds 300` is enough for a first look. `make proofs` runs a
slice, in tests/proofs/test_soak.py.
"""
