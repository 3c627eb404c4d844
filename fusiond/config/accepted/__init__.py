"""What the daemon runs: its snapshot and history, what a change of it does, where its values come from."""
