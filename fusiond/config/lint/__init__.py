"""Checks that a JSON Schema cannot express, by subject; and the formats in which problems are printed."""
