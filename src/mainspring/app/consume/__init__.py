"""Consumers: registration, signatures, injection, contexts, middleware."""
