-- $1 to $8 as in inbox_browse.sql, $9 message id. The same of one id, by the key.
SELECT
    i.group_name, i.source, i.message_id, i.status, i.attempts, i.first_seen_at, i.changed_at, i.hash, i.error,
    i.mismatched_at
FROM mainspring.inbox AS i
WHERE i.message_id = $9
  AND ($4::text IS NULL OR i.status = $4)
  AND (
      $5::interval IS NULL
      OR (i.status = 'processing' AND i.changed_at < coalesce($8::timestamptz, statement_timestamp()) - $5)
  )
  AND ($6::timestamptz IS NULL OR i.changed_at < $6)
  AND ($2::text IS NULL OR i.group_name = $2)
  AND ($3::text IS NULL OR i.source = $3)
  AND starts_with(i.group_name, $1::text)
  AND strpos(substr(i.group_name, length($1::text) + 1), '/') = 0
ORDER BY i.changed_at DESC, i.source, i.group_name
LIMIT $7
