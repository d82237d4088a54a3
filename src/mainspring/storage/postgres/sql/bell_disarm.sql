-- $1 groups. Rows stay: the next arming rewrites them in place.
UPDATE mainspring.bell
SET armed_until = '-infinity'
WHERE group_name = ANY (
    ARRAY(
        SELECT b.group_name
        FROM mainspring.bell AS b
        WHERE b.group_name = ANY ($1::text[]) AND b.armed_until > '-infinity'
        ORDER BY b.group_name
        FOR UPDATE
    )
)
