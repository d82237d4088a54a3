-- ?1 name, ?2 epoch, ?3 now. Answers one row when it was held under this epoch.
UPDATE mainspring_lease
SET holder = NULL, expires_at = ?3
WHERE name = ?1 AND epoch = ?2 AND holder IS NOT NULL AND expires_at > ?3
RETURNING 1
