-- $1 seqs in rising order, $2 epochs, $3 hold, $4 now.
-- Answers (seq, epoch, what) for every claim that was not simply extended: 'asked', 'busy' or 'lost'.
WITH claim AS MATERIALIZED (
    SELECT c.seq, c.epoch
    FROM unnest($1::bigint[], $2::integer[]) AS c (seq, epoch)
),
-- In the order of $1, as everybody locks who locks several.
held AS MATERIALIZED (
    SELECT d.seq, d.epoch, d.cancel_asked
    FROM claim
    CROSS JOIN LATERAL (
        SELECT seq, epoch, cancel_asked
        FROM mainspring.delivery
        -- Not written IS NOT NULL: that would let the planner read all that is held instead of what is named.
        WHERE seq = claim.seq AND epoch = claim.epoch AND num_nulls(held_by) = 0
        FOR UPDATE SKIP LOCKED
    ) AS d
),
extended AS (
    UPDATE mainspring.delivery
    SET due_at = coalesce($4::timestamptz, statement_timestamp()) + $3::interval
    WHERE seq = ANY (ARRAY(SELECT held.seq FROM held))
)
SELECT held.seq, held.epoch, 'asked'
FROM held
WHERE held.cancel_asked
UNION ALL
SELECT
    claim.seq,
    claim.epoch,
    coalesce(
        (
            SELECT 'busy'
            FROM mainspring.delivery AS d
            WHERE d.seq = claim.seq AND d.epoch = claim.epoch AND num_nulls(d.held_by) = 0
        ),
        'lost'
    )
FROM claim
WHERE (claim.seq, claim.epoch) NOT IN (SELECT held.seq, held.epoch FROM held)
