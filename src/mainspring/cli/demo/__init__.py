"""``mainspring demo``: a small shop on a temporary SQLite file, at work before your eyes."""
