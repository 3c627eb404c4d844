"""Outboxes: jobs that an application inserts into a table of its database, in its own transaction."""
