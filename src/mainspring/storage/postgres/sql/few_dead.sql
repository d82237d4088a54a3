-- $1 at most, $2 before, $3 topic, or $4 fingerprint. One row: how many there are, counted to one more than that, and their
-- seqs. A fingerprint is looked for in each group, from one to the next by the index; more than a thousand groups are as
-- good as too many.
WITH RECURSIVE groups (name, step) AS (
    (SELECT d.group_name, 1 FROM mainspring.dead AS d WHERE $4::text IS NOT NULL ORDER BY d.group_name LIMIT 1)
    UNION ALL
    SELECT (SELECT d.group_name FROM mainspring.dead AS d WHERE d.group_name > groups.name ORDER BY d.group_name LIMIT 1),
        groups.step + 1
    FROM groups
    WHERE groups.name IS NOT NULL AND groups.step <= 1000
),
named (name) AS MATERIALIZED (SELECT groups.name FROM groups WHERE groups.name IS NOT NULL),
few AS MATERIALIZED (
    (
        SELECT d.seq
        FROM named
        CROSS JOIN LATERAL (
            SELECT seq FROM mainspring.dead WHERE group_name = named.name AND fingerprint = $4 LIMIT $1 + 1
        ) AS d
        WHERE (SELECT count(*) FROM named) <= 1000
        LIMIT $1 + 1
    )
    UNION ALL
    (SELECT d.seq FROM mainspring.dead AS d WHERE $4 IS NULL AND d.topic = $3 LIMIT $1 + 1)
)
SELECT
    CASE WHEN (SELECT count(*) FROM named) > 1000 THEN $1 + 1 ELSE (SELECT count(*) FROM few) END,
    ARRAY(SELECT few.seq FROM few WHERE few.seq < $2)
