-- $1 name, $2 epoch, $3 holder, $4 now. Answers one row when it was held by this holder under this epoch.
UPDATE mainspring.lease
SET holder = NULL, expires_at = coalesce($4::timestamptz, statement_timestamp())
WHERE name = $1
  AND epoch = $2
  AND holder = $3
  AND expires_at > coalesce($4::timestamptz, statement_timestamp())
RETURNING epoch
