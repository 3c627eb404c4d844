"""What keeps the programs alive and the machine like the file."""
