"""What the dashboard answers, a file per screen: each declares its routes as values."""
