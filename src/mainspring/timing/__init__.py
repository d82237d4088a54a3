"""Pure time: durations, backoff, cron and clocks. Nothing here reads a database or sleeps."""
