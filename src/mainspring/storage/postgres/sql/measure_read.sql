-- $1 span in seconds, $2 how far back from the present span, $3 the group, or the prefix of all; $4 now.
-- Every row begins with the time it was read at; where nothing was counted there is one row, with nothing else.
WITH clock AS MATERIALIZED (
    SELECT coalesce($4::timestamptz, statement_timestamp()) AS now
)
SELECT clock.now, m.at, m.what, m.bin, m.count
FROM clock
LEFT JOIN mainspring.measure AS m
    ON m.span = $1::integer
    AND m.group_name = $3::text
    AND m.at >= to_timestamp(floor(extract(epoch FROM clock.now) / $1::integer) * $1::integer) - $2::interval
