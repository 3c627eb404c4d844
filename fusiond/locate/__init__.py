"""Where the daemon of a file, its state and its broker are, and how the daemon is asked."""
