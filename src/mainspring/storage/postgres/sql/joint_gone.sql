-- $1 first id, $2 limit. One row: the joins among so many that have members who went without a note, and the last of all, null
-- when there are no more. Only a question, and a cheap one: joint_recount asks again before it writes.
WITH page AS MATERIALIZED (
    SELECT j.id, j.pending FROM mainspring.joint AS j WHERE j.id >= $1 ORDER BY j.id LIMIT $2
)
SELECT
    ARRAY(
        SELECT page.id
        FROM page
        WHERE page.pending
            > (SELECT coalesce(sum(e.done + e.failed), 0) FROM mainspring.joint_end AS e WHERE e.join_id = page.id)
            + (SELECT count(*) FROM mainspring.delivery AS d WHERE d.join_id = page.id)
    ),
    (SELECT page.id FROM page ORDER BY page.id OFFSET $2 - 1)
