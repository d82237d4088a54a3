"""Leases: named exclusive holds."""
