"""Health, diagnosis, metrics and events."""
