-- ?1 name, ?2 its next time so far, ?3 revision, ?4 next time, ?5 base, ?6 fired, ?7 missed, ?8 skipped.
-- Guarded by the old time and the revision, though the write lock is ours: a row that has changed is not moved (invariant 5).
UPDATE mainspring_schedule
SET next_at = ?4, base_at = ?5, fired = fired + ?6, missed = missed + ?7, skipped = skipped + ?8
WHERE name = ?1 AND next_at = ?2 AND revision = ?3
RETURNING 1
