-- ?1 name, ?2 epoch, ?3 now, ?4 expires_at. Answers one row when it was held under this epoch.
UPDATE mainspring_lease
SET renewed_at = ?3, expires_at = ?4
WHERE name = ?1 AND epoch = ?2 AND holder IS NOT NULL AND expires_at > ?3
RETURNING 1
