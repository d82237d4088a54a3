"""Events, metrics, traces and log lines."""
