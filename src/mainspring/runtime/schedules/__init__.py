"""Schedules: their plans, what they publish when they are due, and how code and rows are reconciled."""
