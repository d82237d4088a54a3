-- $1 group, $2 how many, $3 now, $4 whether also what has deaths, or has one by being taken; $5 owner, $6 seqs that it
-- has put aside, and that are left alone while it holds them. What time it is, and the oldest claims that have lapsed, by (now, seq, key).
SELECT coalesce($3::timestamptz, statement_timestamp()), d.seq, d.key
FROM (SELECT 1) AS one
LEFT JOIN LATERAL (
    SELECT seq, key, due_at
    FROM mainspring.delivery
    WHERE group_name = $1
      AND held_by IS NOT NULL
      AND due_at <= coalesce($3::timestamptz, statement_timestamp())
      AND ($4 OR (deaths = 0 AND NOT suspect))
      AND NOT (seq = ANY ($6::bigint[]) AND held_by = $5)
      AND NOT EXISTS (SELECT FROM mainspring.groups AS g WHERE g.name = $1 AND g.paused_at IS NOT NULL)
    ORDER BY due_at, seq
    LIMIT $2
) AS d ON true
ORDER BY d.due_at, d.seq
