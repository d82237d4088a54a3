"""What operators do: find, inspect, cancel, pause, replay."""
