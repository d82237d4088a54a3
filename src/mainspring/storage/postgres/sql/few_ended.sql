-- $1 at most, $2 before, $3 status, $4 topic: may be null. One row: how many there are, counted to one more than that, and
-- their ids.
WITH few AS MATERIALIZED (
    (SELECT r.id FROM mainspring.run AS r WHERE $4::text IS NULL AND r.status = $3 LIMIT $1 + 1)
    UNION ALL
    (SELECT r.id FROM mainspring.run AS r WHERE r.topic = $4 AND r.status = $3 LIMIT $1 + 1)
)
SELECT (SELECT count(*) FROM few), ARRAY(SELECT few.id FROM few WHERE few.id < $2)
