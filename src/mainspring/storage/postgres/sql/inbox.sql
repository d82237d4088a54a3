-- The inbox.

-- name: inbox_admit
-- $1 group, $2 source, $3 message id, $4 hash, $5 status to be let in with, $6 how long somebody may have been at it,
-- $7 now. One row: admitted, status, attempts, first seen, mismatch, whether that is news, now. Lengths of time go by their
-- seconds: a day has 24 hours, also where the caller's zone changes its clocks.
-- Instants are told in microseconds, since a caller's connection may read them in its own way.
SELECT
    is_admitted, stands, times, (extract(epoch FROM since) * 1000000)::bigint, is_mismatch, is_news,
    (extract(epoch FROM coalesce($7::timestamptz, statement_timestamp())) * 1000000)::bigint
FROM mainspring.inbox_admit(
    $1::text, $2::text, $3::text, $4::bytea, $5::text,
    make_interval(secs => extract(epoch FROM $6::interval)::float8), $7::timestamptz
)

-- name: inbox_browse
-- $1 group, $2 source, $3 status, $4 for how long somebody must have been at it, $5 before: each may be null; $6 limit,
-- $7 now. Columns in the order of model.inbox.InboxView.
WITH found AS (
    (
        SELECT i.*
        FROM mainspring.inbox AS i
        WHERE i.status = 'processing'
          AND ($3::text IS NULL OR $3 = 'processing')
          AND ($4::interval IS NULL OR i.changed_at < coalesce($7::timestamptz, statement_timestamp()) - $4)
          AND ($5::timestamptz IS NULL OR i.changed_at < $5)
          AND ($1::text IS NULL OR i.group_name = $1)
          AND ($2::text IS NULL OR i.source = $2)
        ORDER BY i.changed_at DESC, i.message_id, i.source, i.group_name
        LIMIT $6
    )
    UNION ALL
    (
        SELECT i.*
        FROM mainspring.inbox AS i
        WHERE i.status <> 'processing'
          AND ($3::text IS NULL OR i.status = $3)
          AND $4::interval IS NULL
          AND ($5::timestamptz IS NULL OR i.changed_at < $5)
          AND ($1::text IS NULL OR i.group_name = $1)
          AND ($2::text IS NULL OR i.source = $2)
        ORDER BY i.changed_at DESC, i.message_id, i.source, i.group_name
        LIMIT $6
    )
)
SELECT
    f.group_name, f.source, f.message_id, f.status, f.attempts, f.first_seen_at, f.changed_at, f.hash, f.error,
    f.mismatched_at
FROM found AS f
ORDER BY f.changed_at DESC, f.message_id, f.source, f.group_name
LIMIT $6

-- name: inbox_find
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

-- name: inbox_mark
-- $1 group, $2 source, $3 message id, $4 attempt, $5 status, $6 error, $7 now, $8 when it was let in, in
-- microseconds, or null. One row if that is how it stands now.
-- Attempts only grow, and are the fence: who was let in later is not overruled, nor who was under the same number by a
-- database that was restored. The same said again changes nothing.
UPDATE mainspring.inbox
SET status = $5,
    error = $6,
    changed_at = CASE
        WHEN status = $5 THEN changed_at
        ELSE coalesce($7::timestamptz, statement_timestamp())
    END
WHERE message_id = $3
  AND source = $2
  AND group_name = $1
  AND attempts = $4
  AND (status = $5 OR (status = 'processing' AND coalesce((extract(epoch FROM changed_at) * 1000000)::bigint = $8::bigint, true)))
RETURNING attempts

-- name: inbox_release
-- $1 group, $2 source, $3 message id, $4 by whom, $5 now. Answers one row when there was something to release.
WITH released AS (
    UPDATE mainspring.inbox
    SET status = 'seen', changed_at = coalesce($5::timestamptz, statement_timestamp())
    WHERE message_id = $3 AND source = $2 AND group_name = $1 AND status IN ('processing', 'dead')
    RETURNING message_id
)
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT coalesce($5::timestamptz, statement_timestamp()), $4, 'inbox release', released.message_id, $2 || ' in ' || $1
FROM released
RETURNING id
