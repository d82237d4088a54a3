-- ?1 app, ?2 names to leave, ?3 now, ?4 limit, ?5 since when a group must have been served. The columns of a schedule, and
-- its deliveries that are unfinished and that wait, the newest of them: that there are any is of interest, and whether there
-- are too many. Where these are all left behind by a group that nobody serves, an older one that counts is not seen; it
-- would have kept them from starting, unless overlaps were allowed then or they were asked for by hand.
SELECT
    s.name, s.app, s.origin, s.definition, s.created_at, s.declared_at, s.base_at, s.next_at, s.overrides, s.edits,
    s.version, s.revision, s.paused_at, s.paused_by, s.pause_reason, s.retired_at, s.fired, s.missed, s.skipped,
    (
        SELECT count(*)
        FROM (
            SELECT d.message_id, d.group_name, d.epoch
            FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_schedule
            WHERE d.schedule = s.name AND d.due_at <> 253402214400000000
            ORDER BY d.seq DESC
            LIMIT 100
        ) AS e
        -- What nobody has begun, of a group that nobody serves, counts as long as no other group has begun it either.
        WHERE e.epoch > 0
           OR EXISTS (
                SELECT 1
                FROM mainspring_groups AS g
                WHERE g.name = e.group_name AND coalesce(g.served_at, g.declared_at) > ?5
            )
           OR (SELECT m.copies FROM mainspring_message AS m WHERE m.id = e.message_id)
              = (SELECT count(*) FROM mainspring_delivery AS c WHERE c.message_id = e.message_id AND c.epoch = 0)
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
