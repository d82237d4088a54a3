"""Integrations with web frameworks and test runners. Each is imported by name, and needs its framework."""
