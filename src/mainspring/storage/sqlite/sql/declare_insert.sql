INSERT INTO mainspring_groups (name, app, handler, options, declared_at) VALUES (?1, ?2, ?3, ?4, ?5)
