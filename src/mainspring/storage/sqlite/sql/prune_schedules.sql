DELETE FROM mainspring_schedule
WHERE name IN (
    SELECT s.name
    FROM mainspring_schedule AS s
    WHERE s.origin = 'api' AND s.next_at IS NULL AND s.paused_at IS NULL AND s.base_at < ?1
    ORDER BY s.name
    LIMIT ?2
)
