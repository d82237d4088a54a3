-- $1 prefix of groups, $2 group: each may be null; $3 how many steps. Groups and fingerprints, and whether they are ours.
--
-- From one cause to the next by the index, and over a group of somebody else's in one step: a fingerprint is of hex digits,
-- and none comes after a tilde. Bounds are written as rows, so that only that index will do, also for a plan that was made
-- while the table was small.
WITH RECURSIVE cause (group_name, fingerprint, ours, step) AS (
    (
        SELECT
            d.group_name, d.fingerprint,
            ($2::text IS NULL OR d.group_name = $2)
            AND starts_with(d.group_name, coalesce($1::text, ''))
            AND ($1 IS NULL OR strpos(substr(d.group_name, length($1) + 1), '/') = 0),
            1
        FROM mainspring.dead AS d
        WHERE (d.group_name, d.fingerprint) >= (coalesce($2, $1, ''), '')
        ORDER BY d.group_name, d.fingerprint
        LIMIT 1
    )
    UNION ALL
    SELECT
        d.group_name, d.fingerprint, $1 IS NULL OR strpos(substr(d.group_name, length($1) + 1), '/') = 0, cause.step + 1
    FROM cause
    CROSS JOIN LATERAL (
        SELECT d.group_name, d.fingerprint
        FROM mainspring.dead AS d
        WHERE (d.group_name, d.fingerprint)
            > (cause.group_name, CASE WHEN cause.ours THEN cause.fingerprint ELSE '~' END)
        ORDER BY d.group_name, d.fingerprint
        LIMIT 1
    ) AS d
    WHERE cause.step < $3
      AND ($2 IS NULL OR d.group_name = $2)
      AND starts_with(d.group_name, coalesce($1, ''))
)
SELECT cause.group_name, cause.fingerprint, cause.ours FROM cause
