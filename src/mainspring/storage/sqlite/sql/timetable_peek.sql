-- ?1 app, ?2 names to leave. One row: when the next occurrence is, whether anything of this app waits, whether it is
-- frozen, whether some join is complete.
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
        FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_waiting
        WHERE d.schedule IS NOT NULL AND d.due_at = 253402214400000000
          -- What is left of a schedule that is gone, is for everybody.
          AND coalesce((SELECT s.app FROM mainspring_schedule AS s WHERE s.name = d.schedule), ?1) = ?1
    ),
    EXISTS (SELECT 1 FROM mainspring_freeze WHERE app IN ('', ?1)),
    EXISTS (SELECT 1 FROM mainspring_joint INDEXED BY mainspring_joint_complete WHERE pending <= 0)
