"""
The proof of outboxes: each committed row becomes exactly one job, whatever is killed, frozen or lost.

    application.py  a process that commits random transactions, rolls others back, and holds some open
    unsynced.py     a Redis of which it is known what its disk has, and which can be cut back to that
    site.py         a database, a Redis, a group that runs the jobs, the applications, and two relays
    harm.py         kills and stops at the relays' failpoints, and what is done to the others while a relay stands still
    stories.py      which harm under which load, and the verdict
    bugs.py         mistakes that the verdict must find, each with the story that brings it out

`python -m tests.chaos.outboxes --help` says how to run it. It needs PostgreSQL, unless it is told to use SQLite.
"""
