"""The process of a worker group that talks to Redis. Owns no process; never loads task code."""
