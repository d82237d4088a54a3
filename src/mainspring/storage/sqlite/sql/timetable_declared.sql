-- ?1 app, ?2 names, ?3 since when it has to be said again, ?4 now. Answers a row for each that had to be.
UPDATE mainspring_schedule
SET declared_at = ?4
WHERE app = ?1 AND name IN (SELECT value FROM json_each(?2)) AND declared_at <= ?3
RETURNING 1
