-- $1 to $7 as in inbox_browse.sql, $8 message id. The same of one id, by the key.
SELECT
    i.group_name, i.source, i.message_id, i.status, i.attempts, i.first_seen_at, i.changed_at, i.hash, i.error,
    i.mismatched_at
FROM mainspring.inbox AS i
WHERE i.message_id = $8
  AND ($3::text IS NULL OR i.status = $3)
  AND (
      $4::interval IS NULL
      OR (i.status = 'processing' AND i.changed_at < coalesce($7::timestamptz, statement_timestamp()) - $4)
  )
  AND ($5::timestamptz IS NULL OR i.changed_at < $5)
  AND ($1::text IS NULL OR i.group_name = $1)
  AND ($2::text IS NULL OR i.source = $2)
ORDER BY i.changed_at DESC, i.source, i.group_name
LIMIT $6
