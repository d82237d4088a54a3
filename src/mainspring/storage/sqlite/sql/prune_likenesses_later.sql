-- ?1 now, ?2 how many of the first ones are left, ?3 when to look at them again. Those that are needed make room for the
-- others: a batch is never all of what waits for a year.
UPDATE mainspring_likeness
SET until = ?3
WHERE hash IN (SELECT hash FROM mainspring_likeness WHERE until < ?1 ORDER BY until, hash LIMIT ?2)
