"""
Malformed input, for as long as one likes: no process may end, hang or grow, and good jobs have their own results.

`python -m tests.fuzz` takes ten minutes for each of five targets; `python -m tests.fuzz wire --seconds 60` is a first
look at one. `make test` runs a slice of each.

    body.py      bytes pushed to a queue's inbox
    client.py    calls of the Client with whatever Python has
    control.py   requests on the daemon's control socket
    replies.py   a Redis whose answers are spoilt on their way (proxy.py)
    wire.py      task code that gets hold of its child's descriptors (hostile.py)

    ground.py    a real daemon and its processes
    mutate.py    bytes and values
    meter.py     who died, who grew
    run.py       rounds, and what came of them

`python -m tests.fuzz.config_file` reads malformed files as `fusiond validate` does: 20,000 by default.
"""
