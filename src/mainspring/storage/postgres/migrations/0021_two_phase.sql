-- Rings the bell, unless that could keep a caller from committing in two phases: PostgreSQL refuses PREPARE TRANSACTION where
-- something was notified of, and it is not known beforehand which transaction will be prepared. So that it never depends on
-- who is asleep, nothing rings in a caller's transaction where the server has prepared transactions at all; its workers find
-- what is new at their next look. The setting says otherwise for a database, a role or a session that prepares none. A channel
-- that begins with '!' is rung from a transaction of our own, which is never prepared.
CREATE FUNCTION mainspring.ring(channel text, said text) RETURNS void LANGUAGE plpgsql AS $function$
BEGIN
    IF left(channel, 1) = '!' THEN
        PERFORM pg_notify(substr(channel, 2), said);
    ELSIF NOT coalesce(
        nullif(current_setting('mainspring' || '.two_phase', true), '')::boolean,
        current_setting('max_prepared_transactions')::integer > 0
    ) THEN
        PERFORM pg_notify(channel, said);
    END IF;
END
$function$;

-- As it was, but for the bell.
CREATE OR REPLACE FUNCTION mainspring.publish_one(
    -- topic, content type, group, priority, id, payload, headers, key
    text, text, text, smallint, uuid, bytea, text, text,
    -- delay, instant, time to live, expiry, correlation, causation, channel, now
    interval, timestamptz, interval, timestamptz, text, uuid, text, timestamptz
) RETURNS SETOF uuid
LANGUAGE plpgsql AS $function$
BEGIN
RETURN QUERY
WITH route AS MATERIALIZED (
    SELECT
        CASE WHEN $3 IS NOT NULL THEN ARRAY[$3] ELSE ARRAY(
            -- One copy per group, however many of its patterns match.
            SELECT DISTINCT s.group_name
            FROM mainspring.subscription AS s
            WHERE (s.pattern = $1 AND NOT s.wild)
               OR (s.wild AND starts_with($1, s.head) AND $1 ~ s.matcher)
            ORDER BY 1
        ) END AS groups,
        coalesce($16, statement_timestamp()) AS now
),
fresh AS (
    INSERT INTO mainspring.message (
        id, topic, key, payload, content_type, headers, correlation_id, causation_id, published_at, expires_at, copies
    )
    SELECT
        $5, $1, $8, $6, $2, $7, $13, $14, now,
        coalesce($12, now + $11), cardinality(groups)
    FROM route
    -- Sent again after a lost reply it changes nothing (invariant 1).
    ON CONFLICT (id) DO NOTHING
    RETURNING id, published_at, copies, coalesce($10, published_at + coalesce($9, '0')) AS asked
),
delivered AS (
    INSERT INTO mainspring.delivery (message_id, group_name, priority, due_at, scheduled_for, published_at, key)
    SELECT id, unnest(groups), $4, greatest(asked, published_at), asked, published_at, $8
    FROM fresh, route
    RETURNING group_name
),
parked AS (
    INSERT INTO mainspring.parked (message_id, topic, key, priority, due_at, scheduled_for, published_at, parked_at)
    SELECT id, $1, $8, $4, greatest(asked, published_at), asked, published_at, published_at
    FROM fresh
    WHERE copies = 0
)
SELECT fresh.id
FROM fresh
-- A notification takes a lock that every committing transaction wants: only who sleeps is woken. The condition is always
-- true, and stands here because nothing else would have it run.
WHERE (
    SELECT count(mainspring.ring($15, bell.group_name))
    FROM mainspring.bell
    WHERE bell.armed_until > fresh.published_at
      AND bell.group_name = ANY (ARRAY(SELECT delivered.group_name FROM delivered))
) IS NOT NULL;
END
$function$;
