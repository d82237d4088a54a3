"""A caller's own transaction, and transactional consumers."""
