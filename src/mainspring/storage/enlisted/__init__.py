"""Enlisting in a transaction of the caller: through a driver, SQLAlchemy or Django."""
