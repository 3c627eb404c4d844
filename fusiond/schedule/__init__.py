"""The scheduler: cron ticks, the catalogue, sweeps. Talks to Redis, never loads task code."""
