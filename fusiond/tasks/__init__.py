"""Ready-made tasks."""
