-- ?1 messages, 16 bytes each, and ?2 their groups; ?3 now. What waits for an earlier run of its schedule, until
-- model.schedule.NEVER, goes on waiting. Answers a row for each that is due now.
UPDATE mainspring_delivery
SET due_at = ?3
WHERE seq IN (
        SELECT d.seq
        FROM json_each(?2) AS p
        CROSS JOIN mainspring_delivery AS d ON d.message_id = substr(?1, 16 * p.key + 1, 16) AND d.group_name = p.value
        WHERE d.held_by IS NULL AND d.due_at > ?3 AND d.due_at < 253402214400000000
    )
RETURNING seq
