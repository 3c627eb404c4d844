"""What runs jobs: dispatcher, fork server, child."""
