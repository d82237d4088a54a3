-- $1 group, $2 levels, $3 how many of each to look at, $4 how many, $5 now. The first that are due, unheld and without a key.
SELECT d.seq
FROM unnest($2::smallint[]) WITH ORDINALITY AS scan (level, turn)
CROSS JOIN LATERAL (
    SELECT seq, key, due_at
    FROM mainspring.delivery
    WHERE group_name = $1
      AND priority = scan.level
      AND held_by IS NULL
      AND due_at <= coalesce($5::timestamptz, statement_timestamp())
    ORDER BY due_at, seq
    LIMIT $3
) AS d
WHERE d.key IS NULL
ORDER BY scan.turn, d.due_at, d.seq
LIMIT $4
