"""Attempts end: how each of them ended, what Redis and the log are told of it, and what its end sets off."""
