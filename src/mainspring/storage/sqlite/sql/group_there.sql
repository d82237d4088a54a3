SELECT app, handler, options FROM mainspring_groups WHERE name = ?1
