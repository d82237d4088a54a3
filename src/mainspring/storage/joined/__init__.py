"""Joining transactions of libraries that speak to several databases: SQLAlchemy and Django."""
