-- $1 before, $2 how many; $3 status, $4 group, $5 topic, $6 text of the error: each but the status and the group may be
-- null. One row: how many were looked at, the last of them, and which are worth another look. Written so that only the
-- index in this order will do, also for a plan that was made while the table was small.
SELECT count(*), min(w.id), coalesce(array_agg(w.id) FILTER (WHERE w.hit), '{}')
FROM (
    SELECT
        r.id,
        r.status = $3
        AND ($4::text IS NULL OR r.group_name = $4)
        AND ($5::text IS NULL OR r.topic = $5)
        AND ($6::text IS NULL OR position(lower($6) IN lower(r.error)) > 0) AS hit
    FROM mainspring.run AS r
    WHERE (r.group_name, r.id) < ($4, $1) AND r.group_name >= $4
    ORDER BY r.group_name DESC, r.id DESC
    LIMIT $2
) AS w
