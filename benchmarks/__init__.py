"""Benchmarks: every claim about speed is a ratio or a count printed by one run of these."""
