-- $1 app, $2 names to leave, $3 limit, $4 now. The columns of a schedule, its deliveries that are unfinished and that wait, and
-- what time it is. Locked until they have gone on, and passed over by everybody else meanwhile (invariant 5).
WITH due AS MATERIALIZED (
    SELECT s.*
    FROM mainspring.schedule AS s
    WHERE s.app = $1
      AND s.next_at <= coalesce($4::timestamptz, statement_timestamp())
      AND s.paused_at IS NULL AND s.retired_at IS NULL
      AND s.name <> ALL ($2::text[])
      AND NOT EXISTS (SELECT FROM mainspring.freeze AS f WHERE f.app IN ('', $1))
    ORDER BY s.next_at, s.name
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
SELECT
    due.name, due.app, due.origin, due.definition, due.created_at, due.declared_at, due.base_at, due.next_at,
    due.overrides, due.edits, due.version, due.revision, due.paused_at, due.paused_by, due.pause_reason, due.retired_at,
    due.fired, due.missed, due.skipped,
    known.unfinished, known.waiting,
    coalesce($4::timestamptz, statement_timestamp())
FROM due
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE near.due_at <> '9999-12-31 00:00:00+00') AS unfinished,
        count(*) FILTER (WHERE near.due_at = '9999-12-31 00:00:00+00') AS waiting
    -- Bounded: that there are any is of interest, and whether there are too many.
    FROM (SELECT d.due_at FROM mainspring.delivery AS d WHERE d.schedule = due.name ORDER BY d.seq LIMIT 1000) AS near
) AS known
ORDER BY due.next_at, due.name
