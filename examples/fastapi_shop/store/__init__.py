"""A shop with FastAPI and SQLAlchemy."""
