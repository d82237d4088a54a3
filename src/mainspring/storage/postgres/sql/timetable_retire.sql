-- $1 app, $2 how long nobody may have declared it, $3 now. Answers the names.
-- What an API call has made is not the code's to take away (invariant 13). What is locked is left to the next time.
UPDATE mainspring.schedule
SET retired_at = coalesce($3::timestamptz, statement_timestamp()),
    revision = revision + 1
WHERE name = ANY (
    ARRAY(
        SELECT s.name
        FROM mainspring.schedule AS s
        WHERE s.app = $1
          AND s.origin = 'code'
          AND s.retired_at IS NULL
          AND s.declared_at <= coalesce($3::timestamptz, statement_timestamp()) - $2::interval
        ORDER BY s.name
        FOR UPDATE SKIP LOCKED
    )
)
RETURNING name
