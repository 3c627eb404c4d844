"""
How fast it is: one file per measure, each against a real daemon on the embedded Redis.

    python -m benchmarks                  all of them, each beside a calibration of the same run
    python -m benchmarks drain latency    some
    python -m benchmarks.peers            beside other job runners, in rounds
    python -m benchmarks.pairs A B        two trees in turn: what a change costs

Nothing here decides: what is measured is printed, whatever it is. docs/benchmarks.md says how to read it.
"""
