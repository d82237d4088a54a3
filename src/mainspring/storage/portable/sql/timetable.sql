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

-- part: DECLARES(process, schedule, trusted_after)
-- Whether a process has the schedule in its code. One of a release that does not list them has every schedule of its app that was
-- declared lately.
(
            {process}.app = {schedule}.app AND {schedule}.name IN (SELECT n.value FROM EACH({process}.schedules, n))
            OR {process}.schedules IS NULL
            AND substr({process}.worker, 1, length({schedule}.app) + 1) = {schedule}.app || '/'
            AND {schedule}.declared_at > {trusted_after}
        )

-- part: LIVE(process, worker, start_id, silent_before)
-- Whether a process counts, as another one sees it. Only one that was there all the time can tell that another was silent: after
-- an outage all were.
(
            {process}.seen_at >= {silent_before}
            OR {process}.start_id <> ''
            AND NOT EXISTS (
                SELECT 1
                FROM mainspring.declaration AS judge
                WHERE judge.worker = {worker} AND judge.start_id = {start_id} AND judge.since <= {silent_before}
            )
        )

-- name: timetable_declarers
-- $1 schedule, $2 after how long a silent process counts no more, $3 for how long a release that lists no schedules is
-- trusted, $4 now. The processes that have it in their code: worker, and its start, which is empty for a declaration by hand.
SELECT d.worker, d.start_id
FROM mainspring.schedule AS s
CROSS JOIN mainspring.declaration AS d
WHERE s.name = $1
  AND d.seen_at >= NOW($4) - $2::interval
  AND DECLARES(d, s, NOW($4) - $3::interval)
ORDER BY d.worker, d.start_id

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

-- name: timetable_retire
-- $1 names of rows that are locked, $2 now.
UPDATE mainspring.schedule
SET retired_at = NOW($2), revision = revision + 1
WHERE name IN (SELECT n.value FROM EACH($1::text[], n))

-- name: timetable_standing
-- $1 app, $2 version, $3 schedules: what a process declares; $4 worker, $5 its start; $6 how often that is recorded, $7 after
-- how long a silent process counts no more, $8 how often a schedule is confirmed, $9 for how long a release that lists no
-- schedules is trusted, $10 now. Rows of: whether all of it is recorded, the name of a schedule of the app's code that differs,
-- and how: no live process has it any more, or else this one has it and it is retired, by no newer version that is live.
-- One row without a name where none does.
-- What an API call has made, or a newer version declared, is not this process's to retire (invariant 13).
SELECT
    EXISTS (
        SELECT 1
        FROM mainspring.declaration AS own
        WHERE own.worker = $4 AND own.start_id = $5
          AND own.app = $1 AND own.version = $2 AND own.schedules = $3
          AND own.seen_at > NOW($10) - $6::interval
    )
    AND NOT EXISTS (
        SELECT 1
        FROM mainspring.schedule AS c
        WHERE c.app = $1 AND c.declared_at <= NOW($10) - $8::interval
          AND c.name IN (SELECT n.value FROM EACH($3::text[], n))
    ),
    s.name,
    s.retired_at IS NULL
FROM (SELECT 1 AS one) AS once
LEFT JOIN mainspring.schedule AS s
    ON s.app = $1 AND s.origin = 'code'
    AND (
        s.version <= $2
        -- A retirement defines nothing: it lasts while the newer version that has none of it is there.
        OR s.retired_at IS NOT NULL
        AND NOT EXISTS (
            SELECT 1
            FROM mainspring.declaration AS newer
            WHERE newer.app = $1 AND newer.version > $2 AND LIVE(newer, $4, $5, NOW($10) - $7::interval)
        )
    )
    AND (s.retired_at IS NULL) = (s.name NOT IN (SELECT n.value FROM EACH($3::text[], n)))
    AND NOT (
        s.retired_at IS NULL
        AND EXISTS (
            SELECT 1
            FROM mainspring.declaration AS d
            WHERE (d.worker <> $4 OR d.start_id <> $5)
              AND (d.version IS NULL OR d.version >= s.version)
              AND LIVE(d, $4, $5, NOW($10) - $7::interval)
              AND DECLARES(d, s, NOW($10) - $9::interval)
        )
    )
ORDER BY s.name

-- name: timetable_thaw
-- $1 app. Returns one row when there was a freeze.
DELETE FROM mainspring.freeze WHERE app = $1 RETURNING app
