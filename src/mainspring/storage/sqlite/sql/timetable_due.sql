-- ?1 app, ?2 names to leave, ?3 now, ?4 limit. The columns of a schedule, and its deliveries that are unfinished and that
-- wait, each counted up to a thousand: that there are any is of interest, and whether there are too many.
SELECT
    s.name, s.app, s.origin, s.definition, s.created_at, s.declared_at, s.base_at, s.next_at, s.overrides, s.edits,
    s.version, s.revision, s.paused_at, s.paused_by, s.pause_reason, s.retired_at, s.fired, s.missed, s.skipped,
    (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_schedule
            WHERE d.schedule = s.name AND d.due_at <> 253402214400000000
            LIMIT 1000
        )
    ),
    (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_waiting
            WHERE d.schedule = s.name AND d.due_at = 253402214400000000
            LIMIT 1000
        )
    )
FROM mainspring_schedule AS s INDEXED BY mainspring_schedule_due
WHERE s.app = ?1
  AND s.next_at <= ?3 AND s.paused_at IS NULL AND s.retired_at IS NULL
  AND s.name NOT IN (SELECT value FROM json_each(?2))
ORDER BY s.next_at, s.name
LIMIT ?4
