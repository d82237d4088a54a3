-- $1 seqs in rising order, $2 epochs, $3 message ids, $4 owner, $5 hold, $6 now.
-- Answers (seq, epoch, message id, what) for every claim that was not simply extended: 'asked', 'busy' or 'lost'.
WITH claim AS MATERIALIZED (
    SELECT c.seq, c.epoch, c.message_id
    FROM unnest($1::bigint[], $2::integer[], $3::uuid[]) AS c (seq, epoch, message_id)
),
-- In the order of $1, as everybody locks who locks several.
held AS MATERIALIZED (
    SELECT d.seq, d.epoch, d.message_id, d.cancel_asked
    FROM claim
    CROSS JOIN LATERAL (
        SELECT seq, epoch, message_id, cancel_asked
        FROM mainspring.delivery
        -- Not written held_by = $4: that would let the planner read all that is held instead of what is named.
        WHERE seq = claim.seq
          AND epoch = claim.epoch
          AND message_id = claim.message_id
          AND coalesce(held_by, '') = $4
        FOR UPDATE SKIP LOCKED
    ) AS d
),
extended AS (
    UPDATE mainspring.delivery
    SET due_at = coalesce($6::timestamptz, statement_timestamp()) + $5::interval
    WHERE seq = ANY (ARRAY(SELECT held.seq FROM held))
)
SELECT held.seq, held.epoch, held.message_id, 'asked'
FROM held
WHERE held.cancel_asked
UNION ALL
SELECT
    claim.seq,
    claim.epoch,
    claim.message_id,
    coalesce(
        (
            SELECT 'busy'
            FROM mainspring.delivery AS d
            WHERE d.seq = claim.seq
              AND d.epoch = claim.epoch
              AND d.message_id = claim.message_id
              AND coalesce(d.held_by, '') = $4
        ),
        'lost'
    )
FROM claim
WHERE (claim.seq, claim.epoch, claim.message_id) NOT IN (SELECT held.seq, held.epoch, held.message_id FROM held)
