"""Schedules: declared in code, edited at run time."""
