SELECT name, app, handler, options, declared_at, served_at, paused_at, paused_by, pause_reason
FROM mainspring_groups
ORDER BY name
