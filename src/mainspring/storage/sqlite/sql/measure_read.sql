-- ?1 span, ?2 since when, ?3 the group, empty for all together.
SELECT at, what, bin, count
FROM mainspring_measure
WHERE span = ?1 AND group_name = ?3 AND at >= ?2
ORDER BY at, what, bin
