-- $1 app, $2 names, $3 how often it needs to be said, $4 now. Who has one of them locked keeps the others from nothing: it is
-- said of it the next time.
UPDATE mainspring.schedule
SET declared_at = coalesce($4::timestamptz, statement_timestamp())
WHERE name = ANY (
    ARRAY(
        SELECT s.name
        FROM mainspring.schedule AS s
        WHERE s.app = $1
          AND s.name = ANY ($2::text[])
          AND s.declared_at <= coalesce($4::timestamptz, statement_timestamp()) - $3::interval
        ORDER BY s.name
        FOR UPDATE SKIP LOCKED
    )
)
