"""The application under test."""
