-- ?1 prefix of groups, ?2 group: each may be null; ?3 how many steps. Groups and fingerprints, and whether they are ours.
--
-- From one cause to the next by the index, and over a group of somebody else's in one step: a fingerprint is of hex digits,
-- and none comes after a tilde.
WITH RECURSIVE
first(group_name) AS (SELECT min(group_name) FROM mainspring_dead WHERE group_name >= coalesce(?2, ?1, '')),
cause(group_name, fingerprint, step) AS (
    SELECT group_name, (SELECT min(fingerprint) FROM mainspring_dead AS d WHERE d.group_name = first.group_name), 1
    FROM first
    UNION ALL
    SELECT (
               SELECT d.group_name
               FROM mainspring_dead AS d INDEXED BY mainspring_dead_cause
               WHERE (d.group_name, d.fingerprint) > (
                   cause.group_name,
                   CASE WHEN instr(substr(cause.group_name, length(?1) + 1), '/') THEN '~' ELSE cause.fingerprint END
               )
               ORDER BY d.group_name, d.fingerprint
               LIMIT 1
           ),
           (
               SELECT d.fingerprint
               FROM mainspring_dead AS d INDEXED BY mainspring_dead_cause
               WHERE (d.group_name, d.fingerprint) > (
                   cause.group_name,
                   CASE WHEN instr(substr(cause.group_name, length(?1) + 1), '/') THEN '~' ELSE cause.fingerprint END
               )
               ORDER BY d.group_name, d.fingerprint
               LIMIT 1
           ),
           cause.step + 1
    FROM cause
    WHERE cause.step < ?3
      AND (?2 IS NULL OR cause.group_name = ?2)
      AND substr(cause.group_name, 1, length(coalesce(?1, ''))) = coalesce(?1, '')
)
SELECT group_name, fingerprint,
       (?2 IS NULL OR group_name = ?2)
       AND substr(group_name, 1, length(coalesce(?1, ''))) = coalesce(?1, '')
       AND (?1 IS NULL OR instr(substr(group_name, length(?1) + 1), '/') = 0)
FROM cause
WHERE group_name IS NOT NULL
