-- ?1 the host's time, ?2 topic or null, ?3 message id. Takes the write lock, as clock_mark does, and says all that one
-- publish has to know: what time it is, whether the id is known, and who subscribes to the topic, or may.
UPDATE mainspring_clock SET at = CASE WHEN at < ?1 - 100000 THEN ?1 ELSE at END
RETURNING
    at,
    EXISTS (SELECT 1 FROM mainspring_message WHERE id = ?3),
    (
        SELECT json_group_array(json_array(pattern, group_name))
        FROM mainspring_subscription
        WHERE ?2 IS NOT NULL AND (wild OR pattern = ?2)
    )
