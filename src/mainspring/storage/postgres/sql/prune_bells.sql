-- $1 now: ears that have not been pricked for an hour belong to workers that are gone.
DELETE FROM mainspring.bell
WHERE (group_name, ear) IN (
    SELECT b.group_name, b.ear
    FROM mainspring.bell AS b
    WHERE b.armed_until < coalesce($1::timestamptz, statement_timestamp()) - interval '1 hour'
    ORDER BY b.group_name, b.ear
    FOR UPDATE SKIP LOCKED
)
