-- $1 groups, $2 whose ear, $3 now. Rows stay: the next arming rewrites them in place. One that another session has locked rings on.
WITH armed AS MATERIALIZED (
    SELECT b.group_name
    FROM mainspring.bell AS b
    WHERE b.group_name = ANY ($1::text[]) AND b.ear = $2 AND b.armed_until > coalesce($3::timestamptz, statement_timestamp())
    ORDER BY b.group_name
    FOR UPDATE SKIP LOCKED
)
UPDATE mainspring.bell
SET armed_until = coalesce($3::timestamptz, statement_timestamp())
WHERE group_name = ANY (ARRAY(SELECT armed.group_name FROM armed)) AND ear = $2
