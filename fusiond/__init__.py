"""A job runner that is described, not programmed."""
