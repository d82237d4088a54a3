"""Benchmarks: every claim about speed is a ratio or a count that one of them prints."""
