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
