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
