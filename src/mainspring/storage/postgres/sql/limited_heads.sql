-- $1 group, $2 keys, $3 ordered, $4 whether those that wait for another attempt are skipped, $5 how deep to look, $6 how
-- many of a key, $7 now. Of those that nobody holds, the first of each key that are due; under an order the very first, if it
-- is due. Compared as rows: nothing but the index by key has this order, whatever the planner believes.
SELECT head.seq, asked.key
FROM unnest($2::text[]) WITH ORDINALITY AS asked (key, place)
CROSS JOIN LATERAL (
    SELECT d.seq, d.due_at
    FROM (
        SELECT *
        FROM mainspring.delivery
        WHERE (group_name, key, seq) > ($1, asked.key, 0)
          AND (group_name, key) <= ($1, asked.key)
          AND num_nulls(held_by) = 1 AND key IS NOT NULL
        ORDER BY group_name, key, seq
        LIMIT $5
    ) AS d
    WHERE d.due_at <= coalesce($7::timestamptz, statement_timestamp()) OR ($3 AND NOT ($4 AND d.attempt > 0))
    ORDER BY d.seq
    LIMIT $6
) AS head
WHERE head.due_at <= coalesce($7::timestamptz, statement_timestamp())
ORDER BY asked.place, head.seq
