-- ?1 pairs of group and fingerprint, ?2 how many of each at most. The place of each cause, how many it has, and when the
-- first and the last of those was buried. A subquery has one column, and is to be run once.
WITH counted(place, told) AS MATERIALIZED (
    SELECT c.key, (
        SELECT json_array(count(*), min(buried_at), max(buried_at))
        FROM (
            SELECT d.buried_at
            FROM mainspring_dead AS d INDEXED BY mainspring_dead_cause
            WHERE d.group_name = json_extract(c.value, '$[0]') AND d.fingerprint = json_extract(c.value, '$[1]')
            ORDER BY d.seq DESC
            LIMIT ?2
        )
    )
    FROM json_each(?1) AS c
)
SELECT place, json_extract(told, '$[0]'), json_extract(told, '$[1]'), json_extract(told, '$[2]') FROM counted
