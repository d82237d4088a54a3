"""One app on many databases."""
