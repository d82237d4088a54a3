-- Freezes of schedules.

-- name: timetable_freeze
-- $1 app, $2 by whom, $3 reason, $4 now.
INSERT INTO mainspring.freeze (app, at, by_whom, reason)
VALUES ($1, coalesce($4::timestamptz, statement_timestamp()), $2, $3)
ON CONFLICT (app) DO UPDATE SET at = excluded.at, by_whom = excluded.by_whom, reason = excluded.reason

-- name: timetable_freezes
-- Columns in the order of model.schedule.Freeze.
SELECT app, at, by_whom, reason FROM mainspring.freeze ORDER BY app

-- name: timetable_thaw
-- $1 app. Answers one row when there was a freeze.
DELETE FROM mainspring.freeze WHERE app = $1 RETURNING app
