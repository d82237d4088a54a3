"""Messages as the application sees them: types, envelopes, unique keys."""
