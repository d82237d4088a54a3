-- ?1 prefix of groups, ?2 group: each may be null; ?3 cap, ?4 limit. Columns in the order of model.browsing.CauseView, those with
-- the most dead letters first. From one cause to the next by the index, up to a thousand of them; counts stop at the cap.
WITH RECURSIVE
first(group_name) AS (SELECT min(group_name) FROM mainspring_dead WHERE group_name >= coalesce(?2, ?1, '')),
cause(group_name, fingerprint) AS (
    SELECT group_name, (SELECT min(fingerprint) FROM mainspring_dead AS d WHERE d.group_name = first.group_name)
    FROM first
    WHERE group_name IS NOT NULL
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
           )
    FROM cause
    WHERE (?2 IS NULL OR cause.group_name = ?2)
      AND substr(cause.group_name, 1, length(coalesce(?1, ''))) = coalesce(?1, '')
),
-- Ours first, and only then a thousand: what other namespaces have must not use them up.
ours(group_name, fingerprint) AS (
    SELECT c.group_name, c.fingerprint
    FROM cause AS c
    WHERE c.group_name IS NOT NULL
      AND (?2 IS NULL OR c.group_name = ?2)
      AND (
          ?1 IS NULL
          OR (substr(c.group_name, 1, length(?1)) = ?1 AND instr(substr(c.group_name, length(?1) + 1), '/') = 0)
      )
    LIMIT 1000
),
counted(group_name, fingerprint, latest, many, first_at, last_at) AS (
    SELECT c.group_name, c.fingerprint,
           (SELECT max(d.seq) FROM mainspring_dead AS d WHERE d.group_name = c.group_name AND d.fingerprint = c.fingerprint),
           (SELECT count(*) FROM (
               SELECT 1 FROM mainspring_dead AS d INDEXED BY mainspring_dead_cause
               WHERE d.group_name = c.group_name AND d.fingerprint = c.fingerprint ORDER BY d.seq DESC LIMIT ?3
           )),
           (SELECT min(buried_at) FROM (
               SELECT d.buried_at FROM mainspring_dead AS d INDEXED BY mainspring_dead_cause
               WHERE d.group_name = c.group_name AND d.fingerprint = c.fingerprint ORDER BY d.seq DESC LIMIT ?3
           )),
           (SELECT max(buried_at) FROM (
               SELECT d.buried_at FROM mainspring_dead AS d INDEXED BY mainspring_dead_cause
               WHERE d.group_name = c.group_name AND d.fingerprint = c.fingerprint ORDER BY d.seq DESC LIMIT ?3
           ))
    FROM ours AS c
)
SELECT counted.group_name, counted.fingerprint, d.kind, d.error, counted.many, counted.first_at, counted.last_at
FROM counted
CROSS JOIN mainspring_dead AS d ON d.seq = counted.latest
ORDER BY counted.many DESC, counted.last_at DESC, counted.group_name, counted.fingerprint
LIMIT ?4
