"""Seeded faults: each breaks one rule that matters, and the tests must notice."""
