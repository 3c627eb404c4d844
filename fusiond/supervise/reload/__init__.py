"""A reload: request → reading → transaction → outcome."""
