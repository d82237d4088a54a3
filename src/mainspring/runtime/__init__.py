"""The moving parts of a worker: they see the storage contract and nothing concrete."""
