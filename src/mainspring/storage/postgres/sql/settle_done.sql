-- $1 seqs in rising order, each once, $2 epochs, $3 message ids, $4 owner, $5 now: plain successes of which nothing is kept.
-- Answers (seq, epoch, message id, what) for every claim that was not written: 'lost', 'gone', or 'busy' where another session
-- has locked the row, perhaps for long: it is not waited for.
--
-- width_bucket finds the place of a seq in $1 by bisection, so every row is compared with its own claim without a join. What is
-- locked is found again by its place in the table, which is half the price of looking it up a second time.
WITH held AS MATERIALIZED (
    SELECT d.ctid AS place
    FROM mainspring.delivery AS d
    WHERE d.seq = ANY ($1::bigint[])
      AND d.epoch = ($2::integer[])[width_bucket(d.seq, $1::bigint[])]
      AND d.message_id = ($3::uuid[])[width_bucket(d.seq, $1::bigint[])]
      -- Not written held_by = $4: that would let the planner read all that is held instead of what is named.
      AND coalesce(d.held_by, '') = $4
    FOR UPDATE SKIP LOCKED
),
done AS (
    DELETE FROM mainspring.delivery AS d
    WHERE d.ctid = ANY (ARRAY(SELECT held.place FROM held))
    RETURNING d.seq, d.message_id
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT coalesce($5::timestamptz, statement_timestamp()), count(*), false, array_agg(done.message_id)
    FROM done
    HAVING count(*) > 0
)
SELECT
    claim.seq,
    claim.epoch,
    claim.message_id,
    coalesce(
        (
            SELECT
                CASE
                    WHEN d.epoch <> claim.epoch OR d.message_id <> claim.message_id OR d.held_by <> $4 THEN 'lost'
                    WHEN d.held_by IS NULL THEN 'gone'
                    ELSE 'busy'
                END
            FROM mainspring.delivery AS d
            WHERE d.seq = claim.seq
        ),
        'gone'
    )
FROM unnest($1::bigint[], $2::integer[], $3::uuid[]) AS claim (seq, epoch, message_id)
WHERE (SELECT count(*) FROM done) < cardinality($1)
  AND claim.seq NOT IN (SELECT done.seq FROM done)
