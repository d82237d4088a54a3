-- The scan stops at ?2, so a backlog of millions costs no more than one of so many.
SELECT count(*) FROM (
    SELECT 1
    FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_ready
    WHERE d.held_by IS NULL AND d.group_name = ?1
    LIMIT ?2
)
