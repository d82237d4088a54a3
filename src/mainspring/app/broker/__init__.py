"""Routes to brokers and intakes from them."""
