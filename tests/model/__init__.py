"""
What the queue in Redis is to do, twice over, in plain Python.

    queue.py      the verbs as a list of jobs would do them; tests/proofs/test_queue_model.py compares Redis with it
    states.py     claim, renew, settle and rescue as states: Redis, dispatchers, children, what is on its way
    verbs.py      what Redis does with a request, as its Lua files do it
    steps.py      everything that can happen next, faults included
    promises.py   what must hold at each step
    explore.py    walks through every state, breadth first
    cases.py      how far, and what is broken without which protection
    limited_….py  the same of limits: places that are taken and given back, jobs that are held

`python -m tests.model` walks through it all, then takes out one protection after the other and prints a shortest way to
harm.
"""
