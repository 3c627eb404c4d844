"""One fork server of a group as its dispatcher sees it: start it, ask it for children, clean up after its death."""
