"""The servers behind Sentinels and of a Cluster, which redis-py finds; loaded only for these two."""
