-- ?1 pairs of group and fingerprint. The place of each cause, and kind and error of the newest of its dead letters.
SELECT c.key, d.kind, d.error
FROM json_each(?1) AS c
CROSS JOIN mainspring_dead AS d
WHERE d.seq = (
    SELECT max(n.seq)
    FROM mainspring_dead AS n INDEXED BY mainspring_dead_cause
    WHERE n.group_name = json_extract(c.value, '$[0]') AND n.fingerprint = json_extract(c.value, '$[1]')
)
