"""
What nobody meant, for as long as one likes: `python -m tests.fuzz TARGET --seconds 600`.

    body.py      bytes pushed to a queue's inbox
    client.py    calls of the Client with whatever Python has
    control.py   requests on the daemon's control socket
    replies.py   a Redis whose answers are spoilt on their way (proxy.py)
    wire.py      task code that gets hold of its child's descriptors (hostile.py)

    ground.py    a real daemon and its processes
    mutate.py    bytes and values
    meter.py     who died, who grew
    run.py       rounds, and what came of them

`tests/fuzz_config.py` does the same for the file.
"""
