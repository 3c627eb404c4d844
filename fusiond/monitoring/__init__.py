"""What is measured of a daemon and its broker, and how it is rendered: for the commands and for the dashboard."""
