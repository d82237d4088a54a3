-- Leases.

-- name: lease_acquire
-- $1 name, $2 holder, $3 ttl, $4 now. Returns (epoch, acquired_at, expires_at) when it was acquired; else no row.
-- A refused caller has only read, so that waiting costs the holder nothing.
WITH clock AS MATERIALIZED (
    SELECT NOW($4) AS now
),
-- A row that is locked is being taken, or was confirmed by a transaction that goes on: it is not to be had now.
free AS MATERIALIZED (
    SELECT l.name
    FROM mainspring.lease AS l
    CROSS JOIN clock
    WHERE l.name = $1 AND (l.holder IS NULL OR l.holder = $2 OR l.expires_at <= clock.now)
    FOR UPDATE OF l SKIP LOCKED
),
taken AS (
    UPDATE mainspring.lease AS l
    SET
        -- The same holder while its time lasts: the call was sent again, because its reply was lost.
        acquired_at = CASE WHEN l.holder = $2 AND l.expires_at > clock.now THEN l.acquired_at ELSE clock.now END,
        -- The epoch never goes back: it is the fence (invariant 16). It is drawn while the row is locked.
        epoch = CASE
            WHEN l.holder = $2 AND l.expires_at > clock.now THEN l.epoch
            ELSE greatest(mainspring.next_lease_epoch(), l.epoch + 1)
        END,
        holder = $2,
        renewed_at = clock.now,
        expires_at = clock.now + $3::interval
    FROM clock
    WHERE l.name = ANY (ARRAY(SELECT free.name FROM free))
    RETURNING l.epoch, l.acquired_at, l.expires_at
),
made AS (
    INSERT INTO mainspring.lease (name, epoch, holder, acquired_at, renewed_at, expires_at)
    SELECT $1, mainspring.next_lease_epoch(), $2, clock.now, clock.now, clock.now + $3::interval
    FROM clock
    WHERE NOT EXISTS (SELECT FROM mainspring.lease WHERE name = $1)
    ON CONFLICT DO NOTHING
    RETURNING epoch, acquired_at, expires_at
)
SELECT taken.epoch, taken.acquired_at, taken.expires_at
FROM taken
UNION ALL
SELECT made.epoch, made.acquired_at, made.expires_at
FROM made

-- name: lease_renew
-- $1 names in rising order, $2 epochs, $3 holders, $4 ttls, $5 now.
-- Returns (name, epoch, holder, what) for every hold that was not renewed: 'busy' or 'lost'.
WITH clock AS MATERIALIZED (
    SELECT NOW($5) AS now
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

-- name: lease_revoke
-- $1 name, $2 by whom, $3 reason, $4 now. Returns one row when it was held.
WITH clock AS MATERIALIZED (
    SELECT NOW($4) AS now
),
held AS MATERIALIZED (
    SELECT l.name, l.holder
    FROM mainspring.lease AS l
    CROSS JOIN clock
    WHERE l.name = $1 AND l.holder IS NOT NULL AND l.expires_at > clock.now
    FOR NO KEY UPDATE OF l
),
released AS (
    UPDATE mainspring.lease AS l
    SET holder = NULL, expires_at = clock.now
    FROM clock
    WHERE l.name = ANY (ARRAY(SELECT held.name FROM held))
)
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT clock.now, $2, 'lease release', held.name, 'held by ' || held.holder || coalesce(': ' || nullif($3::text, ''), '')
FROM held
CROSS JOIN clock
RETURNING id
