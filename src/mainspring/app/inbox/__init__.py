"""The inbox: external messages, each processed once."""
