"""A shop with a database for each customer."""
