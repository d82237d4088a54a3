-- $1 seqs, $2 epochs, $3 hold, $4 now. Answers (seq, epoch, what) for every claim that was not simply extended.
WITH claim AS MATERIALIZED (
    SELECT c.seq, c.epoch
    FROM unnest($1::bigint[], $2::integer[]) AS c (seq, epoch)
),
held AS MATERIALIZED (
    SELECT d.seq, d.epoch, d.cancel_asked
    FROM claim JOIN mainspring.delivery AS d ON d.seq = claim.seq
    WHERE d.epoch = claim.epoch AND d.held_by IS NOT NULL
    ORDER BY d.seq
    FOR UPDATE OF d SKIP LOCKED
),
extended AS (
    UPDATE mainspring.delivery AS d
    SET due_at = coalesce($4::timestamptz, statement_timestamp()) + $3::interval
    FROM held
    WHERE d.seq = held.seq
)
SELECT held.seq, held.epoch, 'asked'
FROM held
WHERE held.cancel_asked
UNION ALL
SELECT
    claim.seq,
    claim.epoch,
    CASE WHEN EXISTS (
        SELECT FROM mainspring.delivery AS d
        WHERE d.seq = claim.seq AND d.epoch = claim.epoch AND d.held_by IS NOT NULL
    ) THEN 'busy' ELSE 'lost' END
FROM claim
WHERE claim.seq NOT IN (SELECT held.seq FROM held)
