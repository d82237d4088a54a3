"""The testing kit: an app on storage of its own, with time in one's hand."""
