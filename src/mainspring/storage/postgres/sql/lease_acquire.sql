-- $1 name, $2 holder, $3 ttl, $4 now. Answers (epoch, acquired_at, expires_at) when it was acquired; else no row.
-- Who is refused has only read, so that waiting costs the holder nothing.
WITH clock AS MATERIALIZED (
    SELECT coalesce($4::timestamptz, statement_timestamp()) AS now
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
