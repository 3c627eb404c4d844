"""Keep the programs running that the file asks for, while the file changes."""
