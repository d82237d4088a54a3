SELECT name, app, handler, options, version FROM mainspring_groups WHERE name IN (SELECT value FROM json_each(?1))
