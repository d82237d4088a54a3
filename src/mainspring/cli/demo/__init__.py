"""``mainspring demo``: a small shop on a temporary SQLite file."""
