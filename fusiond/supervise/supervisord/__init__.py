"""Every subclass of supervisor's classes, and what its loop calls; `daemon.py` apart, which is the loop."""
