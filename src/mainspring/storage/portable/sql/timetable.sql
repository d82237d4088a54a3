-- Schedules, and the joins that complete with them.

-- name: joint_open
-- $1 id, $2 how many members, $3 what follows when all are done, $4 what follows otherwise, $5 now.
INSERT INTO mainspring.joint (id, opened_at, pending, on_done, on_failed) VALUES ($1, NOW($5), $2, $3, $4)

-- part: UNFINISHED(schedule, served_after)
-- The newest of its deliveries that count. Where these are all left behind by an unserved group, an older one that counts is
-- not seen; it would have kept them from starting, unless overlaps were allowed then or they are manual. What has not begun,
-- of an unserved group, counts as long as no other group has begun it either.
        FROM (
            SELECT f.message_id, f.group_name, f.epoch
            FROM mainspring.delivery AS f INDEXED(delivery_schedule)
            WHERE f.schedule = {schedule} AND f.due_at <> NEVER()
            ORDER BY f.seq DESC
            LIMIT 100
        ) AS e
        WHERE e.epoch > 0
           OR EXISTS (
                SELECT 1
                FROM mainspring.groups AS g
                WHERE g.name = e.group_name AND coalesce(g.served_at, g.declared_at) > {served_after}
            )
           OR (SELECT m.copies FROM mainspring.message AS m WHERE m.id = e.message_id)
              = (SELECT count(*) FROM mainspring.delivery AS c WHERE c.message_id = e.message_id AND c.epoch = 0)

-- name: timetable_busy
-- $1 groups, $2 now. Those of them that have a delivery which is ready or running.
SELECT s.value
FROM EACH($1::text[], s)
WHERE EXISTS (
        SELECT 1
        FROM mainspring.delivery AS d INDEXED(delivery_held)
        WHERE d.group_name = s.value AND d.held_by IS NOT NULL
    )
   OR EXISTS (
        SELECT 1
        FROM mainspring.delivery AS d INDEXED(delivery_ready)
        WHERE d.group_name = s.value AND d.held_by IS NULL AND d.priority IN (0, 1, 2, 3) AND d.due_at <= NOW($2)
    )

-- name: timetable_delete
-- $1 names.
DELETE FROM mainspring.schedule WHERE name IN (SELECT s.value FROM EACH($1::text[], s))

-- name: timetable_freeze
-- $1 app, $2 by whom, $3 reason, $4 now.
INSERT INTO mainspring.freeze (app, at, by_whom, reason)
VALUES ($1, NOW($4), $2, $3)
ON CONFLICT (app) DO UPDATE SET at = excluded.at, by_whom = excluded.by_whom, reason = excluded.reason

-- name: timetable_freezes
-- Columns in the order of model.schedule.Freeze.
SELECT app, at, by_whom, reason FROM mainspring.freeze ORDER BY app

-- name: timetable_thaw
-- $1 app. Returns one row when there was a freeze.
DELETE FROM mainspring.freeze WHERE app = $1 RETURNING app
