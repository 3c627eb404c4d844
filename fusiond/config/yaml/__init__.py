"""Text → nodes, each with its file, line and column."""
