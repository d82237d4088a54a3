"""Doors into web frameworks and test runners. Each is imported by name, and none without its framework."""
