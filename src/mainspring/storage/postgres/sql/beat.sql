-- $1 worker, $2 app, $3 host, $4 pid, $5 groups, $6 in hand, $7 bell; $8 groups, $9 handled, $10 failed; $11 tripped; $12 now;
-- $13 groups, $14 what was counted, $15 bins, $16 counts, $17 the spans in which they are added up. One row: whether it
-- is to drain.
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
    RETURNING draining_at IS NOT NULL AS drains
),
counted AS (
    INSERT INTO mainspring.tally AS t (worker, group_name, handled, failed)
    SELECT $1, r.group_name, r.handled, r.failed
    FROM unnest($8::text[], $9::bigint[], $10::bigint[]) AS r (group_name, handled, failed)
    ORDER BY r.group_name
    ON CONFLICT (worker, group_name) DO UPDATE
    SET handled = t.handled + excluded.handled, failed = t.failed + excluded.failed
),
-- In the order of the key, as every worker does: they add to the same rows.
measured AS (
    INSERT INTO mainspring.measure AS m (span, at, group_name, what, bin, count)
    SELECT
        s.span,
        to_timestamp(floor(extract(epoch FROM clock.now) / s.span) * s.span) AS at,
        r.group_name,
        r.what,
        r.bin,
        r.count
    FROM clock
    CROSS JOIN unnest($17::integer[]) AS s (span)
    CROSS JOIN unnest($13::text[], $14::text[], $15::integer[], $16::bigint[]) AS r (group_name, what, bin, count)
    ORDER BY s.span, r.group_name, r.what, r.bin
    ON CONFLICT (span, group_name, at, what, bin) DO UPDATE SET count = m.count + excluded.count
),
-- Once a minute is enough, and whoever is at it already says the same.
stale AS MATERIALIZED (
    SELECT g.name
    FROM mainspring.groups AS g
    WHERE g.name = ANY ($5::text[])
      AND (g.served_at IS NULL OR g.served_at < (SELECT clock.now FROM clock) - interval '60 seconds')
    ORDER BY g.name
    FOR UPDATE SKIP LOCKED
),
served AS (
    UPDATE mainspring.groups
    SET served_at = (SELECT clock.now FROM clock)
    WHERE name = ANY (ARRAY(SELECT stale.name FROM stale))
)
SELECT seen.drains FROM seen
