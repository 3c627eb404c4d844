"""What a schema cannot say, by subject; and how problems are told."""
