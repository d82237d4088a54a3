-- $1 group; $2 levels, $3 sinces: the scans; $4 how many to look at, $5 now. Rows of (what, place, seq, key, at):
-- 'due' the first that are due; 'held' in place how many are held under the key; 'next' when the first comes due of
-- those that are not; 'paused' if the group is; 'now' what time it is.
WITH due AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY scan.turn, d.due_at, d.seq) AS place, d.seq, d.key
    FROM unnest($2::smallint[], $3::timestamptz[]) WITH ORDINALITY AS scan (level, since, turn)
    CROSS JOIN LATERAL (
        SELECT seq, key, due_at
        FROM mainspring.delivery
        WHERE group_name = $1
          AND priority = scan.level
          AND held_by IS NULL
          AND due_at >= coalesce(scan.since, '-infinity')
          AND due_at <= coalesce($5::timestamptz, statement_timestamp())
        ORDER BY due_at, seq
        LIMIT $4
    ) AS d
    ORDER BY place
    LIMIT $4
),
later AS MATERIALIZED (
    SELECT d.due_at
    FROM unnest('{0,1,2,3}'::smallint[]) AS level
    CROSS JOIN LATERAL (
        SELECT due_at
        FROM mainspring.delivery
        WHERE group_name = $1
          AND priority = level
          AND held_by IS NULL
          AND due_at > coalesce($5::timestamptz, statement_timestamp())
        ORDER BY due_at, seq
        LIMIT 1
    ) AS d
)
SELECT 'now', 0, NULL::bigint, NULL::text, coalesce($5::timestamptz, statement_timestamp())
UNION ALL
SELECT 'paused', 0, NULL, NULL, paused_at FROM mainspring.groups WHERE name = $1 AND paused_at IS NOT NULL
UNION ALL
SELECT 'next', 0, NULL, NULL, min(due_at) FROM later HAVING count(*) > 0
UNION ALL
SELECT 'held', count(*), NULL, key, NULL FROM mainspring.delivery WHERE group_name = $1 AND held_by IS NOT NULL GROUP BY key
UNION ALL
SELECT 'due', place, seq, key, NULL FROM due
