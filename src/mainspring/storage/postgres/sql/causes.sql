-- Counting causes of death.

-- name: causes_count
-- $1 groups, $2 fingerprints, $3 how many of each at most. The place of each cause, how many it has, and when the first and
-- the last of those was buried. Bounds are written as rows, so that only the index in this order will do.
SELECT c.place - 1, counted.many, counted.first_at, counted.last_at
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS c (group_name, fingerprint, place)
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

-- name: causes_known
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

-- name: causes_latest
-- $1 groups, $2 fingerprints. The place of each cause, and kind and error of the newest of its dead letters.
SELECT c.place - 1, latest.kind, latest.error
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS c (group_name, fingerprint, place)
CROSS JOIN LATERAL (
    SELECT d.kind, d.error
    FROM mainspring.dead AS d
    WHERE (d.group_name, d.fingerprint) >= (c.group_name, c.fingerprint)
      AND (d.group_name, d.fingerprint) <= (c.group_name, c.fingerprint)
    ORDER BY d.group_name DESC, d.fingerprint DESC, d.seq DESC
    LIMIT 1
) AS latest
