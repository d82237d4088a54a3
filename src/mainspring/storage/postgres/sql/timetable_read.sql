-- $1 names, $2 app: each may be null; $3 now. What time it is and the columns of a schedule, by name; one row of nulls where there
-- is none.
SELECT
    clock.now,
    s.name, s.app, s.origin, s.definition, s.created_at, s.declared_at, s.base_at, s.next_at, s.overrides, s.edits,
    s.version, s.revision, s.paused_at, s.paused_by, s.pause_reason, s.retired_at, s.fired, s.missed, s.skipped
FROM (SELECT coalesce($3::timestamptz, statement_timestamp()) AS now) AS clock
LEFT JOIN mainspring.schedule AS s
    ON ($1::text[] IS NULL OR s.name = ANY ($1)) AND ($2::text IS NULL OR s.app = $2)
ORDER BY s.name
