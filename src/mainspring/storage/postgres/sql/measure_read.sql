-- $1 span in seconds, $2 how far back from the present span, $3 the group, empty for all together; $4 now.
-- Every row begins with the time it was read at; where nothing was counted there is one row, with nothing else.
WITH clock AS MATERIALIZED (
    SELECT coalesce($4::timestamptz, statement_timestamp()) AS now
),
since AS MATERIALIZED (
    SELECT to_timestamp(floor(extract(epoch FROM clock.now) / $1::integer) * $1::integer) - $2::interval AS at FROM clock
),
counted AS (
    SELECT m.at, m.what, m.bin, m.count
    FROM mainspring.measure AS m
    WHERE m.span = $1::integer AND m.group_name = $3::text AND m.at >= (SELECT since.at FROM since)
    UNION ALL
    SELECT m.at, m.what, m.bin, sum(m.count)::bigint
    FROM mainspring.measure_slot AS m
    WHERE m.span = $1::integer AND m.group_name = $3::text AND m.at >= (SELECT since.at FROM since)
    GROUP BY m.at, m.what, m.bin
)
SELECT clock.now, counted.at, counted.what, counted.bin, counted.count
FROM clock
LEFT JOIN counted ON true
