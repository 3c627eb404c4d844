"""What operators and the upkeep do to a queue."""
