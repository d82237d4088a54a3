"""What SQL databases share: statements and their order; a dialect supplies what differs."""
