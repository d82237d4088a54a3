-- Counts of runs over time.

-- name: beat_measure
INSERT INTO mainspring_measure (span, at, group_name, what, bin, count)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (span, group_name, at, what, bin) DO UPDATE SET count = count + excluded.count

-- name: measure_paces
-- ?1 span, ?2 since when.
SELECT group_name, what, bin, sum(count)
FROM mainspring_measure
WHERE span = ?1
  AND at >= ?2
  AND group_name <> ''
GROUP BY group_name, what, bin
ORDER BY group_name, what, bin

-- name: measure_read
-- ?1 span, ?2 since when, ?3 the group, empty for all together.
SELECT at, what, bin, count
FROM mainspring_measure
WHERE span = ?1 AND group_name = ?3 AND at >= ?2
ORDER BY at, what, bin

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
