"""What happens, as values on one bus."""
