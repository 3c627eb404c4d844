"""The only room that speaks Redis."""
