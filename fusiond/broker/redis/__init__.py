"""Reach a Redis: one server, a primary that Sentinels watch, or a Cluster. Knows nothing of jobs."""
