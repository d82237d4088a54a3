"""The storage contract, and the databases that keep it."""
