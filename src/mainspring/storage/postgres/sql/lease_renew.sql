-- $1 names in rising order, $2 epochs, $3 ttls, $4 now.
-- Answers (name, epoch, what) for every hold that was not renewed: 'busy' or 'lost'.
WITH clock AS MATERIALIZED (
    SELECT coalesce($4::timestamptz, statement_timestamp()) AS now
),
hold AS MATERIALIZED (
    SELECT h.name, h.epoch, h.ttl
    FROM unnest($1::text[], $2::bigint[], $3::interval[]) AS h (name, epoch, ttl)
),
held AS MATERIALIZED (
    SELECT l.name, l.epoch, hold.ttl
    FROM hold
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT name, epoch
        FROM mainspring.lease
        WHERE name = hold.name AND epoch = hold.epoch AND holder IS NOT NULL AND expires_at > clock.now
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS l
),
renewed AS (
    UPDATE mainspring.lease AS l
    SET renewed_at = clock.now, expires_at = clock.now + held.ttl
    FROM held
    CROSS JOIN clock
    WHERE l.name = held.name
)
SELECT
    hold.name,
    hold.epoch,
    coalesce(
        (
            SELECT 'busy'
            FROM mainspring.lease AS l
            CROSS JOIN clock
            WHERE l.name = hold.name AND l.epoch = hold.epoch AND l.holder IS NOT NULL AND l.expires_at > clock.now
        ),
        'lost'
    )
FROM hold
WHERE (hold.name, hold.epoch) NOT IN (SELECT held.name, held.epoch FROM held)
