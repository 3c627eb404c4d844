"""The dashboard and its API: a program of the daemon that speaks HTTP, Redis and the daemon's control socket."""
