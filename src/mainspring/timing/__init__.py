"""Pure time: durations, backoff and clocks. Nothing here reads a database or sleeps."""
