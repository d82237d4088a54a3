"""The dashboard's API, a file per screen: each declares its routes as values."""
