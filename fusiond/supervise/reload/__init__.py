"""Requests about the configuration: queued, answered by reading the file, applied in a transaction."""
