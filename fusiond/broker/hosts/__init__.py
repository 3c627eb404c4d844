"""What the daemons and workers of all hosts say about themselves."""
