-- $1 groups, $2 whose ear, $3 now. Rows stay: the next arming rewrites them in place.
UPDATE mainspring.bell
SET armed_until = coalesce($3::timestamptz, statement_timestamp())
WHERE group_name = ANY ($1::text[]) AND ear = $2 AND armed_until > coalesce($3::timestamptz, statement_timestamp())
