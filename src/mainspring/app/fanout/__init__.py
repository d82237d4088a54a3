"""Fan-out: one rhythm over many shards."""
