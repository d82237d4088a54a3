-- $1 seqs in rising order, $2 epochs, $3 now: plain successes of which nothing is kept.
-- Answers (seq, epoch, what) for every claim that was not written: 'lost', 'gone', or 'again' when the row was
-- changed under our eyes, so that only a fresh look can say.
--
-- An index scan for an array runs in the order of the index, so rows are locked in the order of their seq.
-- Locking them first would guarantee it under every plan, at twice the price. width_bucket finds the place of a
-- seq in $1 by bisection, so every row is compared with its own epoch without a join.
WITH done AS (
    DELETE FROM mainspring.delivery AS d
    WHERE d.seq = ANY ($1::bigint[])
      AND d.epoch = ($2::integer[])[width_bucket(d.seq, $1::bigint[])]
      -- Not written IS NOT NULL: that would let the planner read all that is held instead of what is named.
      AND num_nulls(d.held_by) = 0
    RETURNING d.seq, d.message_id
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT coalesce($3::timestamptz, statement_timestamp()), count(*), false, array_agg(done.message_id)
    FROM done
    HAVING count(*) > 0
)
SELECT
    claim.seq,
    claim.epoch,
    coalesce(
        (
            SELECT CASE WHEN d.epoch <> claim.epoch THEN 'lost' WHEN d.held_by IS NULL THEN 'gone' ELSE 'again' END
            FROM mainspring.delivery AS d
            WHERE d.seq = claim.seq
        ),
        'gone'
    )
FROM unnest($1::bigint[], $2::integer[]) AS claim (seq, epoch)
WHERE (SELECT count(*) FROM done) < cardinality($1)
  AND claim.seq NOT IN (SELECT done.seq FROM done)
