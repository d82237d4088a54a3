-- $1 the only name, $2 after which name: each may be null; $3 limit, $4 now. Columns in the order of model.lease.LeaseView.
SELECT
    l.name,
    CASE
        WHEN l.holder IS NULL THEN 'free'
        WHEN l.expires_at > coalesce($4::timestamptz, statement_timestamp()) THEN 'held'
        ELSE 'expired'
    END,
    l.holder, l.epoch, l.acquired_at, l.renewed_at, l.expires_at
FROM mainspring.lease AS l
WHERE l.name >= coalesce($1::text, $2::text, '')
  AND ($1::text IS NULL OR l.name = $1)
  AND ($2::text IS NULL OR l.name > $2)
ORDER BY l.name
LIMIT $3
