-- $1 name, $2 epoch, $3 now. Answers one row when it was held under this epoch.
UPDATE mainspring.lease
SET holder = NULL, expires_at = coalesce($3::timestamptz, statement_timestamp())
WHERE name = $1 AND epoch = $2 AND holder IS NOT NULL AND expires_at > coalesce($3::timestamptz, statement_timestamp())
RETURNING epoch
