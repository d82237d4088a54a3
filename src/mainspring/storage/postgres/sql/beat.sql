-- $1 worker, $2 app, $3 host, $4 pid, $5 groups, $6 in hand, $7 bell; $8 groups, $9 handled, $10 failed; $11 tripped; $12 now.
WITH clock AS MATERIALIZED (
    SELECT coalesce($12::timestamptz, statement_timestamp()) AS now
),
seen AS (
    INSERT INTO mainspring.worker (name, app, host, pid, groups, in_hand, bell, started_at, beat_at, tripped)
    SELECT $1, $2, $3, $4, $5::text[], $6, $7, clock.now, clock.now, $11::text[]
    FROM clock
    ON CONFLICT (name) DO UPDATE
    SET app = excluded.app,
        host = excluded.host,
        pid = excluded.pid,
        groups = excluded.groups,
        in_hand = excluded.in_hand,
        bell = excluded.bell,
        tripped = excluded.tripped,
        beat_at = excluded.beat_at
),
counted AS (
    INSERT INTO mainspring.tally AS t (worker, group_name, handled, failed)
    SELECT $1, r.group_name, r.handled, r.failed
    FROM unnest($8::text[], $9::bigint[], $10::bigint[]) AS r (group_name, handled, failed)
    ORDER BY r.group_name
    ON CONFLICT (worker, group_name) DO UPDATE
    SET handled = t.handled + excluded.handled, failed = t.failed + excluded.failed
),
-- Once a minute is enough, and whoever is at it already says the same.
stale AS MATERIALIZED (
    SELECT g.name
    FROM mainspring.groups AS g
    WHERE g.name = ANY ($5::text[])
      AND (g.served_at IS NULL OR g.served_at < (SELECT clock.now FROM clock) - interval '60 seconds')
    ORDER BY g.name
    FOR UPDATE SKIP LOCKED
)
UPDATE mainspring.groups
SET served_at = (SELECT clock.now FROM clock)
WHERE name = ANY (ARRAY(SELECT stale.name FROM stale))
