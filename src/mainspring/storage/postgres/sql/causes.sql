-- $1 prefix of groups, $2 group: each may be null; $3 cap, $4 limit. Columns in the order of model.browsing.CauseView, those with
-- the most dead letters first.
--
-- From one cause to the next by the index, up to a thousand of them; every count stops at the cap. Bounds are written as
-- rows, so that only that index will do, also for a plan that was made while the table was small.
WITH RECURSIVE cause (group_name, fingerprint) AS (
    (
        SELECT d.group_name, d.fingerprint
        FROM mainspring.dead AS d
        WHERE d.group_name >= coalesce($2::text, $1::text, '')
        ORDER BY d.group_name, d.fingerprint
        LIMIT 1
    )
    UNION ALL
    SELECT d.group_name, d.fingerprint
    FROM cause
    CROSS JOIN LATERAL (
        SELECT d.group_name, d.fingerprint
        FROM mainspring.dead AS d
        WHERE (d.group_name, d.fingerprint) > (cause.group_name, cause.fingerprint)
        ORDER BY d.group_name, d.fingerprint
        LIMIT 1
    ) AS d
    WHERE ($2 IS NULL OR d.group_name = $2) AND starts_with(d.group_name, coalesce($1, ''))
)
SELECT c.group_name, c.fingerprint, latest.kind, latest.error, counted.many, counted.first_at, counted.last_at
FROM (
    -- Ours first, and only then a thousand: what other namespaces have must not use them up.
    SELECT cause.group_name, cause.fingerprint
    FROM cause
    WHERE ($2 IS NULL OR cause.group_name = $2)
      AND (
          $1 IS NULL
          OR (starts_with(cause.group_name, $1) AND strpos(substr(cause.group_name, length($1) + 1), '/') = 0)
      )
    LIMIT 1000
) AS c
CROSS JOIN LATERAL (
    SELECT count(*) AS many, min(n.buried_at) AS first_at, max(n.buried_at) AS last_at
    FROM (
        SELECT d.buried_at
        FROM mainspring.dead AS d
        WHERE (d.group_name, d.fingerprint) >= (c.group_name, c.fingerprint)
          AND (d.group_name, d.fingerprint) <= (c.group_name, c.fingerprint)
        ORDER BY d.group_name DESC, d.fingerprint DESC, d.seq DESC
        LIMIT $3
    ) AS n
) AS counted
CROSS JOIN LATERAL (
    SELECT d.kind, d.error
    FROM mainspring.dead AS d
    WHERE (d.group_name, d.fingerprint) >= (c.group_name, c.fingerprint)
      AND (d.group_name, d.fingerprint) <= (c.group_name, c.fingerprint)
    ORDER BY d.group_name DESC, d.fingerprint DESC, d.seq DESC
    LIMIT 1
) AS latest
ORDER BY counted.many DESC, counted.last_at DESC, c.group_name, c.fingerprint
LIMIT $4
