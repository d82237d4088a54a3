-- ?1 names, ?2 app: each may be null. The columns of a schedule, by name.
SELECT
    name, app, origin, definition, created_at, declared_at, base_at, next_at, overrides, edits, version, revision,
    paused_at, paused_by, pause_reason, retired_at, fired, missed, skipped
FROM mainspring_schedule
WHERE (?1 IS NULL OR name IN (SELECT value FROM json_each(?1))) AND (?2 IS NULL OR app = ?2)
ORDER BY name
