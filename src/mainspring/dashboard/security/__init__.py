"""Access control: identities, tokens, sessions, origins, and masking."""
