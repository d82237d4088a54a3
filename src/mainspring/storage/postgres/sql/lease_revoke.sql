-- $1 name, $2 by whom, $3 reason, $4 now. Answers one row when somebody held it.
WITH clock AS MATERIALIZED (
    SELECT coalesce($4::timestamptz, statement_timestamp()) AS now
),
held AS MATERIALIZED (
    SELECT l.name, l.holder
    FROM mainspring.lease AS l
    CROSS JOIN clock
    WHERE l.name = $1 AND l.holder IS NOT NULL AND l.expires_at > clock.now
    FOR NO KEY UPDATE OF l
),
released AS (
    UPDATE mainspring.lease AS l
    SET holder = NULL, expires_at = clock.now
    FROM clock
    WHERE l.name = ANY (ARRAY(SELECT held.name FROM held))
)
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT clock.now, $2, 'lease release', held.name, 'held by ' || held.holder || coalesce(': ' || nullif($3::text, ''), '')
FROM held
CROSS JOIN clock
RETURNING id
