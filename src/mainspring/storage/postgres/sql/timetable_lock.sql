-- $1 names, $2 now. What time it is and the columns of a schedule, by name; one row of nulls where there is none.
WITH locked AS MATERIALIZED (
    SELECT s.* FROM mainspring.schedule AS s WHERE s.name = ANY ($1::text[]) ORDER BY s.name FOR UPDATE
)
SELECT
    clock.now,
    s.name, s.app, s.origin, s.definition, s.created_at, s.declared_at, s.base_at, s.next_at, s.overrides, s.edits,
    s.version, s.revision, s.paused_at, s.paused_by, s.pause_reason, s.retired_at, s.fired, s.missed, s.skipped
FROM (SELECT coalesce($2::timestamptz, statement_timestamp()) AS now) AS clock
LEFT JOIN locked AS s ON true
ORDER BY s.name
