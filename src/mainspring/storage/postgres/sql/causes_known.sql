-- $1 group, may be null; $2 how many steps. Groups and fingerprints, from one to the next by the index.
--
-- Bounds are written as rows, so that only that index will do, also for a plan that was made while the table was small. A
-- row is found before it is asked whose it is, so that nothing is read of a group that has no more.
WITH RECURSIVE cause (group_name, fingerprint, step) AS (
    SELECT d.group_name, d.fingerprint, 1
    FROM (
        SELECT d.group_name, d.fingerprint
        FROM mainspring.dead AS d
        WHERE (d.group_name, d.fingerprint) >= (coalesce($1::text, ''), '')
        ORDER BY d.group_name, d.fingerprint
        LIMIT 1
    ) AS d
    WHERE $1 IS NULL OR d.group_name = $1
    UNION ALL
    SELECT d.group_name, d.fingerprint, cause.step + 1
    FROM cause
    CROSS JOIN LATERAL (
        SELECT d.group_name, d.fingerprint
        FROM mainspring.dead AS d
        WHERE (d.group_name, d.fingerprint) > (cause.group_name, cause.fingerprint)
        ORDER BY d.group_name, d.fingerprint
        LIMIT 1
    ) AS d
    WHERE cause.step < $2
      AND ($1 IS NULL OR d.group_name = $1)
)
SELECT cause.group_name, cause.fingerprint FROM cause
