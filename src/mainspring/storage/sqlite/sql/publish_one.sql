-- ?1 to ?8 the message; ?9 the host's time, ?10 whether the stored clock counts too; ?11 expiry, ?12 time to live;
-- ?13 group. Stores the message, and says when, what the clock is at and how many copies there are to be. Nothing where
-- the id is known, or where patterns have to be asked: those are matched in Python.
INSERT INTO mainspring_message (
    id, topic, key, payload, content_type, headers, correlation_id, causation_id, published_at, expires_at, copies
)
SELECT
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, clock.now, coalesce(?11, clock.now + ?12),
    CASE WHEN ?13 IS NOT NULL THEN 1 ELSE (SELECT count(*) FROM mainspring_subscription WHERE pattern = ?2) END
FROM (SELECT CASE WHEN ?10 THEN max(?9, at) ELSE ?9 END AS now FROM mainspring_clock) AS clock
WHERE ?13 IS NOT NULL OR NOT EXISTS (SELECT 1 FROM mainspring_subscription WHERE wild)
ON CONFLICT (id) DO NOTHING
RETURNING published_at, (SELECT at FROM mainspring_clock), copies
