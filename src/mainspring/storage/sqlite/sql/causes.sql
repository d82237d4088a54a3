-- Counting causes of death.

-- name: causes_count
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

-- name: causes_known
-- ?1 group, may be null; ?2 how many steps. Groups and fingerprints, from one to the next by the index.
WITH RECURSIVE
first(group_name) AS (SELECT min(group_name) FROM mainspring_dead WHERE group_name >= coalesce(?1, '')),
cause(group_name, fingerprint, step) AS (
    SELECT group_name, (SELECT min(fingerprint) FROM mainspring_dead AS d WHERE d.group_name = first.group_name), 1
    FROM first
    UNION ALL
    SELECT (
               SELECT d.group_name
               FROM mainspring_dead AS d INDEXED BY mainspring_dead_cause
               WHERE (d.group_name, d.fingerprint) > (cause.group_name, cause.fingerprint)
               ORDER BY d.group_name, d.fingerprint
               LIMIT 1
           ),
           (
               SELECT d.fingerprint
               FROM mainspring_dead AS d INDEXED BY mainspring_dead_cause
               WHERE (d.group_name, d.fingerprint) > (cause.group_name, cause.fingerprint)
               ORDER BY d.group_name, d.fingerprint
               LIMIT 1
           ),
           cause.step + 1
    FROM cause
    WHERE cause.step < ?2
      AND cause.group_name IS NOT NULL
      AND (?1 IS NULL OR cause.group_name = ?1)
)
SELECT group_name, fingerprint
FROM cause
WHERE group_name IS NOT NULL
  AND (?1 IS NULL OR group_name = ?1)

-- name: causes_latest
-- ?1 pairs of group and fingerprint. The place of each cause, and kind and error of the newest of its dead letters.
SELECT c.key, d.kind, d.error
FROM json_each(?1) AS c
CROSS JOIN mainspring_dead AS d
WHERE d.seq = (
    SELECT max(n.seq)
    FROM mainspring_dead AS n INDEXED BY mainspring_dead_cause
    WHERE n.group_name = json_extract(c.value, '$[0]') AND n.fingerprint = json_extract(c.value, '$[1]')
)
