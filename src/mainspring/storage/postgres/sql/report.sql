-- $1 seqs in rising order, $2 epochs, $3 what is said, $4 now.
-- No delivery is locked: it may be settled at this very moment, and then the row is shown to nobody.
INSERT INTO mainspring.progress AS p (seq, epoch, said, at)
SELECT told.seq, told.epoch, told.said, coalesce($4::timestamptz, statement_timestamp())
FROM unnest($1::bigint[], $2::integer[], $3::text[]) AS told (seq, epoch, said)
CROSS JOIN LATERAL (
    SELECT 1
    FROM mainspring.delivery
    WHERE seq = told.seq AND epoch = told.epoch AND num_nulls(held_by) = 0
    OFFSET 0
) AS held
ORDER BY told.seq
ON CONFLICT (seq) DO UPDATE SET epoch = excluded.epoch, said = excluded.said, at = excluded.at
-- An old holder that still saw itself hold it takes nothing back (invariant 2).
WHERE p.epoch <= excluded.epoch
