"""What commands print: colours, safe text, tables, progress. Knows nothing of jobs and of the daemon."""
