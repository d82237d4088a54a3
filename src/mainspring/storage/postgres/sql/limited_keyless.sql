-- $1 group, $2 levels, $3 how many, $4 now. The first that are due, unheld and without a key.
SELECT d.seq
FROM unnest($2::smallint[]) WITH ORDINALITY AS scan (level, turn)
CROSS JOIN LATERAL (
    SELECT seq, due_at
    FROM mainspring.delivery
    WHERE group_name = $1
      AND priority = scan.level
      AND num_nulls(held_by) = 1 AND key IS NULL
      AND due_at <= coalesce($4::timestamptz, statement_timestamp())
    ORDER BY due_at, seq
    LIMIT $3
) AS d
ORDER BY scan.turn, d.due_at, d.seq
LIMIT $3
