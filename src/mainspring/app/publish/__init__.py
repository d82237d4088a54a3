"""Publishing: a message from the call to the database."""
