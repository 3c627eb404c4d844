"""What runs by the clock: cron ticks, the task catalogue, sweeps."""
