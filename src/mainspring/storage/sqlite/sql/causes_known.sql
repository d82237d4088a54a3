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
