"""What runs by the clock: cron ticks, the catalogue, sweeps. Knows Redis, never task code."""
