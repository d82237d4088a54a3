"""``mainspring top``: reading, drawing, and keyboard input."""
