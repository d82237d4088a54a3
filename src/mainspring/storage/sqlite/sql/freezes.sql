-- Freezes of schedules.

-- name: timetable_freeze
INSERT INTO mainspring_freeze (app, at, by_whom, reason)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (app) DO UPDATE SET at = excluded.at, by_whom = excluded.by_whom, reason = excluded.reason

-- name: timetable_freezes
SELECT app, at, by_whom, reason FROM mainspring_freeze ORDER BY app

-- name: timetable_thaw
DELETE FROM mainspring_freeze WHERE app = ?1 RETURNING 1
