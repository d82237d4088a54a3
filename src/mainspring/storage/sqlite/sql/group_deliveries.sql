SELECT seq, message_id
FROM (
    SELECT seq, message_id FROM mainspring_delivery WHERE held_by IS NULL AND group_name = ?1
    UNION ALL
    SELECT seq, message_id FROM mainspring_delivery WHERE held_by IS NOT NULL AND group_name = ?1
)
ORDER BY seq
LIMIT ?2
