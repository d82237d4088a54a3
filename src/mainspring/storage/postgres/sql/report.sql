-- $1 seqs in rising order, $2 epochs, $3 message ids, $4 what is said, $5 owner, $6 now.
-- No delivery is locked: it may be settled at this very moment, and then the row is shown to nobody.
-- What another session has locked is left as it is, until more is said of that run.
WITH free AS MATERIALIZED (
    SELECT f.seq
    FROM mainspring.progress AS f
    WHERE f.seq = ANY ($1::bigint[])
    ORDER BY f.seq
    FOR UPDATE SKIP LOCKED
)
INSERT INTO mainspring.progress AS p (seq, epoch, said, at)
SELECT told.seq, told.epoch, told.said, coalesce($6::timestamptz, statement_timestamp())
FROM unnest($1::bigint[], $2::integer[], $3::uuid[], $4::text[]) AS told (seq, epoch, message_id, said)
CROSS JOIN LATERAL (
    SELECT message_id, held_by FROM mainspring.delivery WHERE seq = told.seq AND epoch = told.epoch OFFSET 0
) AS held
WHERE held.message_id = told.message_id
  AND held.held_by = $5
  AND (
      told.seq IN (SELECT free.seq FROM free)
      OR NOT EXISTS (SELECT FROM mainspring.progress AS known WHERE known.seq = told.seq)
  )
ORDER BY told.seq
ON CONFLICT (seq) DO UPDATE SET epoch = excluded.epoch, said = excluded.said, at = excluded.at
-- An old holder that still saw itself hold it takes nothing back (invariant 2).
WHERE p.epoch <= excluded.epoch
