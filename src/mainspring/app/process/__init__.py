"""Worker processes: run, supervise, and run CPU-bound handlers."""
