-- ?1 span, ?2 since when, ?3 prefix of groups.
SELECT group_name, what, bin, sum(count)
FROM mainspring_measure
WHERE span = ?1
  AND at >= ?2
  AND substr(group_name, 1, length(?3)) = ?3
  AND length(group_name) > length(?3)
  AND instr(substr(group_name, length(?3) + 1), '/') = 0
GROUP BY group_name, what, bin
ORDER BY group_name, what, bin
