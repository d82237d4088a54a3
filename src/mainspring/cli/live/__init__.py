"""``mainspring top``: what is read, how it is drawn, and the keys that are heard meanwhile."""
