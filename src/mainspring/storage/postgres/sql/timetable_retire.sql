-- $1 app, $2 how long nobody may have declared it, $3 now. Answers the names.
-- What an API call has made is not the code's to take away (invariant 13).
UPDATE mainspring.schedule
SET retired_at = coalesce($3::timestamptz, statement_timestamp()),
    revision = revision + 1
WHERE app = $1
  AND origin = 'code'
  AND retired_at IS NULL
  AND declared_at <= coalesce($3::timestamptz, statement_timestamp()) - $2::interval
RETURNING name
