-- Counts of runs over time.

-- part: SINCE(at, span, back)
{at} - {at} % ({span} * 1000000) - {back}

-- name: beat_measure
INSERT INTO mainspring_measure (span, at, group_name, what, bin, count)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (span, group_name, at, what, bin) DO UPDATE SET count = count + excluded.count

-- name: measure_rates
-- ?1 span in seconds, ?2 how far back from the present span, ?3 now. Rows as in measure_read, with a group instead of a time.
SELECT clock.now, m.group_name, m.what, m.bin, sum(m.count)
FROM (SELECT ?3 AS now) AS clock
LEFT JOIN mainspring_measure AS m ON m.span = ?1 AND m.at >= SINCE(?3, ?1, ?2) AND m.group_name <> ''
GROUP BY m.group_name, m.what, m.bin

-- name: measure_read
-- ?1 span in seconds, ?2 how far back from the present span, ?3 the group, empty for all together; ?4 now.
-- Every row begins with the time it was read at; where nothing was counted there is one row, with nothing else.
SELECT clock.now, m.at, m.what, m.bin, m.count
FROM (SELECT ?4 AS now) AS clock
LEFT JOIN mainspring_measure AS m ON m.span = ?1 AND m.group_name = ?3 AND m.at >= SINCE(?4, ?1, ?2)

-- name: prune_measures
-- ?1 span, ?2 before when, ?3 limit.
DELETE FROM mainspring_measure
WHERE (span, at, group_name, what, bin) IN (
    SELECT span, at, group_name, what, bin
    FROM mainspring_measure
    WHERE span = ?1 AND at < ?2
    ORDER BY at, group_name, what, bin
    LIMIT ?3
)
