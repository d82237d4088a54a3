-- ?1 name, ?2 epoch, ?3 holder, ?4 now, ?5 expires_at. Answers one row when it was held by this holder under this epoch.
UPDATE mainspring_lease
SET renewed_at = ?4, expires_at = ?5
WHERE name = ?1 AND epoch = ?2 AND holder = ?3 AND expires_at > ?4
RETURNING 1
