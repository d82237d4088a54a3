-- $1 app, $2 names, $3 how often it needs to be said, $4 now.
UPDATE mainspring.schedule
SET declared_at = coalesce($4::timestamptz, statement_timestamp())
WHERE app = $1
  AND name = ANY ($2::text[])
  AND declared_at <= coalesce($4::timestamptz, statement_timestamp()) - $3::interval
