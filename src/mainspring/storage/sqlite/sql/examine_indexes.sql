SELECT name FROM sqlite_schema WHERE type = 'index'
