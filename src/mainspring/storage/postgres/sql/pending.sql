-- $1 groups, $2 how far each is counted. A row per group: (name, how many of its deliveries nobody holds, due or not).
--
-- The scan stops at that number, so a backlog of millions costs no more than one of so many. It goes backwards: what
-- was settled and is not vacuumed yet lies at the other end, and would be passed over row by row.
SELECT
    asked.name,
    (
        SELECT count(*) FROM (
            SELECT FROM mainspring.delivery AS d
            WHERE d.group_name = asked.name AND d.held_by IS NULL
            ORDER BY d.group_name DESC, d.priority DESC, d.due_at DESC, d.seq DESC
            LIMIT asked.most
        ) AS counted
    )
FROM unnest($1::text[], $2::bigint[]) AS asked (name, most)
