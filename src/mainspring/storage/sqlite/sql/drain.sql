-- ?1 worker, ?2 since when it is to drain, and ?3 who wants that: both null where it is not to.
UPDATE mainspring_worker
SET draining_at = CASE WHEN ?2 IS NULL THEN NULL ELSE coalesce(draining_at, ?2) END, drained_by = ?3
WHERE name = ?1
RETURNING name
