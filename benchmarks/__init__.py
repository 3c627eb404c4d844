"""
How fast it is: one file per measure, each against a real daemon on the embedded Redis.

    python -m benchmarks                  all of them, beside the gates
    python -m benchmarks drain latency    some
    python -m benchmarks.peers            beside other job runners, on the same Redis

Nothing here decides: what is measured is printed, whatever it is. docs/benchmarks.md says how to read it.
"""
