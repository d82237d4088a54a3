-- $1 names in rising order, $2 epochs, $3 holders, $4 ttls, $5 now.
-- Answers (name, epoch, holder, what) for every hold that was not renewed: 'busy' or 'lost'.
WITH clock AS MATERIALIZED (
    SELECT coalesce($5::timestamptz, statement_timestamp()) AS now
),
hold AS MATERIALIZED (
    SELECT h.name, h.epoch, h.holder, h.ttl
    FROM unnest($1::text[], $2::bigint[], $3::text[], $4::interval[]) AS h (name, epoch, holder, ttl)
),
held AS MATERIALIZED (
    SELECT l.name, l.epoch, l.holder, hold.ttl
    FROM hold
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT name, epoch, holder
        FROM mainspring.lease
        WHERE name = hold.name AND epoch = hold.epoch AND holder = hold.holder AND expires_at > clock.now
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
    hold.holder,
    coalesce(
        (
            SELECT 'busy'
            FROM mainspring.lease AS l
            CROSS JOIN clock
            WHERE l.name = hold.name AND l.epoch = hold.epoch AND l.holder = hold.holder AND l.expires_at > clock.now
        ),
        'lost'
    )
FROM hold
WHERE (hold.name, hold.epoch, hold.holder) NOT IN (SELECT held.name, held.epoch, held.holder FROM held)
