-- ?1 at most, ?2 before, ?3 topic, or ?4 fingerprint. One row: how many there are, counted to one more than that, and their
-- seqs. A fingerprint is looked for in each group, from one to the next by the index.
WITH RECURSIVE groups(name) AS (
    SELECT min(group_name) FROM mainspring_dead WHERE ?4 IS NOT NULL
    UNION ALL
    SELECT (SELECT min(group_name) FROM mainspring_dead WHERE group_name > groups.name)
    FROM groups
    WHERE groups.name IS NOT NULL
    LIMIT 1002
)
-- Where there are more groups than are asked one by one, what was found is not all: as good as too many.
SELECT
    CASE WHEN (SELECT count(*) FROM (SELECT name FROM groups LIMIT 1001)) > 1000 THEN ?1 + 1 ELSE count(*) END,
    json_group_array(seq) FILTER (WHERE seq < ?2)
FROM (
    SELECT d.seq AS seq
    FROM (SELECT name FROM groups LIMIT 1000) AS groups  -- written out, see few_live
    CROSS JOIN mainspring_dead AS d INDEXED BY mainspring_dead_cause
    WHERE d.group_name = groups.name AND d.fingerprint = ?4
    UNION ALL
    SELECT d.seq FROM mainspring_dead AS d INDEXED BY mainspring_dead_topic WHERE ?4 IS NULL AND d.topic = ?3
    LIMIT ?1 + 1
)
