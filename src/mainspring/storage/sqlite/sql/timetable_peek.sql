-- ?1 app, ?2 names to leave. One row: when the next occurrence is, whether anything waits, whether it is frozen, whether
-- some join is complete.
SELECT
    (
        SELECT next_at
        FROM mainspring_schedule INDEXED BY mainspring_schedule_due
        WHERE app = ?1
          AND next_at IS NOT NULL AND paused_at IS NULL AND retired_at IS NULL
          AND name NOT IN (SELECT value FROM json_each(?2))
        ORDER BY next_at
        LIMIT 1
    ),
    EXISTS (
        SELECT 1
        FROM mainspring_delivery INDEXED BY mainspring_delivery_waiting
        WHERE schedule IS NOT NULL AND due_at = 253402214400000000
    ),
    EXISTS (SELECT 1 FROM mainspring_freeze WHERE app IN ('', ?1)),
    EXISTS (SELECT 1 FROM mainspring_joint INDEXED BY mainspring_joint_complete WHERE pending <= 0)
