-- ?1 at most, ?2 before, ?3 status, ?4 topic: may be null. One row: how many there are, counted to one more than that, and
-- their ids.
SELECT count(*), json_group_array(id) FILTER (WHERE id < ?2)
FROM (
    SELECT r.id AS id FROM mainspring_run AS r INDEXED BY mainspring_run_age WHERE ?4 IS NULL AND r.status = ?3
    UNION ALL
    SELECT r.id FROM mainspring_run AS r INDEXED BY mainspring_run_topic WHERE r.topic = ?4 AND r.status = ?3
    LIMIT ?1 + 1
)
