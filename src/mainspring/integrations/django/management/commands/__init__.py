"""``manage.py`` commands, one per module."""
