-- $1 names, $2 whether what others have locked is waited for, $3 now. What time it is, the names that were passed over, and the
-- columns of a schedule, by name; one row of nulls where there is none.
WITH waited_for AS MATERIALIZED (
    SELECT s.* FROM mainspring.schedule AS s WHERE s.name = ANY ($1::text[]) AND $2::boolean ORDER BY s.name FOR UPDATE
),
at_once AS MATERIALIZED (
    SELECT s.*
    FROM mainspring.schedule AS s
    WHERE s.name = ANY ($1::text[]) AND NOT $2::boolean
    ORDER BY s.name
    FOR UPDATE SKIP LOCKED
),
locked AS MATERIALIZED (
    SELECT waited_for.* FROM waited_for
    UNION ALL
    SELECT at_once.* FROM at_once
)
SELECT
    clock.now,
    ARRAY(
        SELECT b.name
        FROM mainspring.schedule AS b
        WHERE b.name = ANY ($1::text[]) AND NOT $2::boolean AND b.name NOT IN (SELECT locked.name FROM locked)
    ),
    s.name, s.app, s.origin, s.definition, s.created_at, s.declared_at, s.base_at, s.next_at, s.overrides, s.edits,
    s.version, s.revision, s.paused_at, s.paused_by, s.pause_reason, s.retired_at, s.fired, s.missed, s.skipped
FROM (SELECT coalesce($3::timestamptz, statement_timestamp()) AS now) AS clock
LEFT JOIN locked AS s ON true
ORDER BY s.name
