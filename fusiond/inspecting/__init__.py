"""What people ask about queues, jobs, workers and failures: Plans without I/O; commands and pages show them."""
