-- ?1 span, ?2 since when.
SELECT group_name, what, bin, sum(count)
FROM mainspring_measure
WHERE span = ?1
  AND at >= ?2
  AND group_name <> ''
GROUP BY group_name, what, bin
ORDER BY group_name, what, bin
