-- ?1 group, ?2 app, ?3 handler, ?4 options, ?5 version, ?6 now. What an operator set, as a pause, is not touched (invariant 13).
INSERT INTO mainspring_groups AS g (name, app, handler, options, version, declared_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (name) DO UPDATE SET handler = ?3, options = ?4, version = ?5
