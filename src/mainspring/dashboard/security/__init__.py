"""Who may see and do what: identities, tokens, sessions, origins, and what is never shown."""
