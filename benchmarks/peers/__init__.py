"""
Other job runners beside fusiond: the same Redis, the same no-op, each set up as its own documentation advises.

`peers.py` says how each is started; `apps/` holds the few lines of each that a user would write. They are installed
into a virtual environment of their own under the cache directory; where PyPI cannot be reached, nothing is measured.
"""
