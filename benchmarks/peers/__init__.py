"""
Other job runners beside fusiond: the same Redis, the same jobs, each set up as its own documentation advises.

`runners.py` says how each is started; `apps/` holds the few lines of each that a user would write. `environment.py`
installs them below the cache directory; what cannot be installed is left out.
"""
