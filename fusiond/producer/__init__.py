"""What a producer does, without I/O: the jobs of its calls are made here, sent, and followed."""
