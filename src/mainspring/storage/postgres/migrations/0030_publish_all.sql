-- Many messages, as publish_one stores one. In a function because its plan is then kept with the session, also where drivers prepare
-- nothing, and made once: as a statement it was planned again for each batch, which took 0.5 ms. It has the caller's own rights.
CREATE FUNCTION mainspring.publish_all(
    -- The kinds of drafts in this batch, each once: topics, content types, groups, priorities.
    text[], text[], text[], smallint[],
    -- The drafts, one per place: places in the kinds, ids, payloads, headers, keys, delays, instants, times to live, expiries,
    -- correlations, causations, schedules, whether by hand, joins. An unused array may be empty, the first where there is one kind.
    integer[], uuid[], bytea[], text[], text[], interval[], timestamptz[], interval[], timestamptz[],
    text[], uuid[], text[], boolean[], uuid[],
    -- Channel, now. Returns the ids that were known already.
    text, timestamptz
) RETURNS SETOF uuid
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $function$
DECLARE
    known uuid[];
    rung bigint;
BEGIN
WITH kind AS MATERIALIZED (
    SELECT
        k.place, k.topic, k.content_type, k.priority,
        CASE WHEN k.group_name IS NOT NULL THEN ARRAY[k.group_name] ELSE ARRAY(
            -- One copy per group, however many of its patterns match.
            SELECT s.group_name FROM mainspring.subscription AS s WHERE s.pattern = k.topic AND NOT s.wild
            UNION
            SELECT s.group_name FROM mainspring.subscription AS s
            WHERE s.wild AND starts_with(k.topic, s.head) AND k.topic ~ s.matcher
            ORDER BY 1
        ) END AS groups
    FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS k (topic, content_type, group_name, priority, place)
),
receiver AS MATERIALIZED (
    SELECT kind.place AS kind, given.name, given.position
    FROM kind, unnest(kind.groups) WITH ORDINALITY AS given (name, position)
),
draft AS MATERIALIZED (
    SELECT
        d.*, kind.topic, kind.content_type, kind.priority, kind.groups, clock.now,
        -- By its seconds: a day has 24 hours here, also where the caller's zone changes its clocks in between.
        coalesce(d.at, clock.now + coalesce(make_interval(secs => extract(epoch FROM d.delay)::float8), '0'))
            AS scheduled_for
    FROM
        unnest($5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) WITH ORDINALITY AS d (
            kind, id, payload, headers, key, delay, at, expires_in, expires_at, correlation_id, causation_id, schedule,
            manual, join_id, position
        )
        JOIN kind ON kind.place = coalesce(d.kind, 1),
        (SELECT coalesce($20, statement_timestamp()) AS now) AS clock
),
-- In the order of ids, so that two callers that retry the same batch do not deadlock.
fresh AS (
    INSERT INTO mainspring.message (
        id, topic, key, payload, content_type, headers, correlation_id, causation_id, published_at, expires_at, copies
    )
    SELECT
        id, topic, key, payload, content_type, headers, correlation_id, causation_id, now,
        coalesce(expires_at, now + make_interval(secs => extract(epoch FROM expires_in)::float8)), cardinality(groups)
    FROM draft
    ORDER BY id
    -- Sent again after a lost reply it changes nothing (invariant 1).
    ON CONFLICT (id) DO NOTHING
    RETURNING id
),
-- IS TRUE keeps this a hash lookup. As a join it would be planned for the handful of rows that PostgreSQL
-- expects of any array, and may then compare every draft with every other.
delivered AS (
    INSERT INTO mainspring.delivery (
        message_id, group_name, priority, due_at, scheduled_for, published_at, key, schedule, manual, join_id
    )
    SELECT
        draft.id, receiver.name, draft.priority, greatest(draft.scheduled_for, draft.now), draft.scheduled_for,
        draft.now, draft.key, draft.schedule, coalesce(draft.manual, false), draft.join_id
    FROM draft JOIN receiver ON receiver.kind = coalesce(draft.kind, 1)
    WHERE (draft.id IN (SELECT fresh.id FROM fresh)) IS TRUE
    ORDER BY draft.position, receiver.position
    RETURNING group_name
),
parked AS (
    INSERT INTO mainspring.parked (
        message_id, topic, key, priority, due_at, scheduled_for, published_at, parked_at, schedule, manual
    )
    SELECT
        id, topic, key, priority, greatest(scheduled_for, now), scheduled_for, now, now, schedule,
        coalesce(manual, false)
    FROM draft
    -- Most batches park nothing, and are not read for it.
    WHERE EXISTS (SELECT FROM kind WHERE cardinality(kind.groups) = 0)
      AND cardinality(groups) = 0
      AND (id IN (SELECT fresh.id FROM fresh)) IS TRUE
    ORDER BY position
)
SELECT
    CASE
        WHEN (SELECT count(*) FROM fresh) < cardinality($6)
        THEN ARRAY(SELECT draft.id FROM draft WHERE (draft.id IN (SELECT fresh.id FROM fresh)) IS NOT TRUE)
    END,
    -- A notification takes a lock that every committing transaction wants: only sleeping workers are woken.
    (
        SELECT count(mainspring.ring($19, bell.group_name))
        FROM mainspring.bell
        WHERE bell.armed_until > coalesce($20, statement_timestamp())
          AND bell.group_name = ANY (ARRAY(SELECT delivered.group_name FROM delivered))
    )
INTO known, rung;
RETURN QUERY SELECT unnest(known);
END
$function$;

-- Marks messages from outside as done and publishes them, if none of their marks and ids is known. Returns whether it did: otherwise
-- nothing is changed.
CREATE FUNCTION mainspring.inbox_receive_all(
    -- Group, source, 16 characters of a hash and a message id each.
    text, text, text[],
    -- As of publish_all.
    text[], text[], text[], smallint[],
    integer[], uuid[], bytea[], text[], text[], interval[], timestamptz[], interval[], timestamptz[],
    text[], uuid[], text[], boolean[], uuid[],
    text, timestamptz
) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $function$
DECLARE
    marked bigint;
BEGIN
    INSERT INTO mainspring.inbox (first_seen_at, changed_at, attempts, status, message_id, source, group_name, hash)
    SELECT
        coalesce($23, statement_timestamp()), coalesce($23, statement_timestamp()), 1, 'done', substr(s.value, 17), $2, $1,
        convert_to(substr(s.value, 1, 16), 'UTF8')
    FROM unnest($3) AS s (value)
    ON CONFLICT (message_id, source, group_name) DO NOTHING;
    GET DIAGNOSTICS marked = ROW_COUNT;
    IF marked = cardinality($3) THEN
        PERFORM FROM mainspring.publish_all(
            $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23
        );
        IF NOT FOUND THEN
            RETURN true;
        END IF;
    END IF;
    RAISE SQLSTATE 'MS001';  -- takes back what was written since BEGIN
EXCEPTION WHEN SQLSTATE 'MS001' THEN
    RETURN false;
END
$function$;
