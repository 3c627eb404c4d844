"""The processes of a worker group: fork server, children, probes. Knows no Redis."""
