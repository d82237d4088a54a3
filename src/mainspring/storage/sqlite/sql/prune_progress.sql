DELETE FROM mainspring_progress
WHERE seq IN (
    SELECT p.seq
    FROM mainspring_progress AS p
    LEFT JOIN mainspring_delivery AS d ON d.seq = p.seq AND d.epoch = p.epoch AND d.held_by IS NOT NULL
    WHERE d.seq IS NULL
    ORDER BY p.seq
    LIMIT ?1
)
