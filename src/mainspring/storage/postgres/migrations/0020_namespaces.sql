-- A namespace has a schema of its own, with functions of its own: "mainspring-staging".publish(...). So they take none.
-- And an id that is known as another message is told of. All else is as 0003_publish_from_sql has it.
DROP FUNCTION mainspring.publish(
    text, text, text, interval, timestamptz, text, text, jsonb, text, uuid, interval, timestamptz, text, text, text
);
DROP FUNCTION mainspring.publish(
    text, json, text, interval, timestamptz, text, text, jsonb, text, uuid, interval, timestamptz, text, text, text
);
DROP FUNCTION mainspring.publish(
    text, jsonb, text, interval, timestamptz, text, text, jsonb, text, uuid, interval, timestamptz, text, text, text
);
DROP FUNCTION mainspring.publish(
    text, bytea, text, interval, timestamptz, text, text, jsonb, text, uuid, interval, timestamptz, text, text, text
);
DROP FUNCTION mainspring.publish_checked(
    text, text, bytea, text, interval, timestamptz, text, text, jsonb, text, uuid, interval, timestamptz, text, text,
    text
);

-- Checks one message by the rules of Python's publish, then stores it by the very function that applications use. All
-- that it calls runs under its search_path. It has the caller's own rights: who may publish is a matter of grants, and a
-- function that lent out its owner's rights would be open to everyone. One plan is right for every single message:
-- making one each time costs more than all the rest.
CREATE FUNCTION mainspring.publish_checked(
    topic text, json_text text, raw bytea, key text, delay interval, due_at timestamptz, past text, priority text,
    headers jsonb, correlation_id text, message_id uuid, expires_in interval, expires_at timestamptz, to_group text,
    content_type text
) RETURNS uuid
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $function$
DECLARE
    body bytea := coalesce(raw, convert_to(coalesce(json_text, 'null'), 'UTF8'));
    kind text := coalesce(content_type, 'application/' || CASE WHEN raw IS NULL THEN 'json' ELSE 'octet-stream' END);
    media text := '[a-z0-9][a-z0-9!#$&^_.+-]{0,126}';
    level smallint := array_position(ARRAY['urgent', 'high', 'normal', 'low'], coalesce(priority, 'normal')) - 1;
    most integer := coalesce((SELECT setting.payload_limit FROM mainspring.setting), 262144);
    header_text text;
    micros bigint;
    wrong text;
    place text;
BEGIN
    wrong := CASE
        WHEN topic IS NULL THEN 'a topic is text like ''orders.placed'', not NULL'
        WHEN char_length(topic) NOT BETWEEN 1 AND 255 THEN
            format('a topic is 1 to 255 characters, not %s: %s', char_length(topic), mainspring.shown(topic))
        -- White space as Python knows it, not as the locale does.
        WHEN topic ~ E'[\\u0001-\\u0020\\u007f-\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]' THEN
            format('topic %s has white space or a control character: use ''.'' or ''-''', mainspring.shown(topic))
        WHEN strpos(topic, '/') > 0 THEN
            format('topic %L has a ''/'': separate segments by ''.'', as in ''orders.placed''', topic)
        WHEN strpos('.' || topic || '.', '..') > 0 THEN
            format('topic %L has an empty segment: write one dot between segments, none at the ends', topic)
        WHEN topic ~ '[*#]' THEN format('topic %L has a wildcard: publish to a plain topic', topic)
        WHEN strpos(to_group, '/') > 0 THEN
            format('to_group=%s has a ''/'': use ''.'', ''-'' or ''_''', mainspring.shown(to_group))
        WHEN kind !~ ('^' || media || '/' || media || '(; version=[1-9][0-9]{0,8})?$') THEN
            format('content_type=%s must be like ''application/json; version=2''', mainspring.shown(kind))
        WHEN raw IS NULL AND kind !~ '[/+-]json(;|$)' THEN
            format('content_type=%L is not JSON: pass the payload as bytea', kind)
        WHEN level IS NULL THEN
            format('priority=%s is not one of ''urgent'', ''high'', ''normal'', ''low''', mainspring.shown(priority))
        WHEN past NOT IN ('run', 'raise') THEN format('past=%L is not one of ''run'', ''raise''', past)
        WHEN delay IS NOT NULL AND due_at IS NOT NULL THEN
            'delay and at were both given: a message has one due time, pass one of them'
        WHEN delay < '0' THEN format('delay=%L is negative: leave it out to deliver now', delay)
        WHEN greatest(delay, expires_in) > '36500 days' OR extract(year FROM greatest(delay, expires_in)) > 100 THEN
            format('%L is longer than a hundred years: give a shorter time', greatest(delay, expires_in))
        -- The workers' calendar has no other years, and no infinity.
        WHEN least(due_at, expires_at) < '0001-01-01 00:00+00'
            OR greatest(due_at, expires_at) >= '10000-01-01 00:00+00' THEN
            'at and expires_at must be in the years 1 to 9999: leave out what shall never be'
        WHEN past = 'raise' AND due_at < statement_timestamp() THEN
            format('at=%L has passed: give a later time, or past => ''run'' to deliver it now', due_at)
        WHEN expires_in IS NOT NULL AND expires_at IS NOT NULL THEN
            'expires_in and expires_at were both given: a message expires once, pass one of them'
        WHEN expires_in <= greatest(delay, '0') THEN
            format('expires_in=%L is not after delay=%L: it would never be delivered', expires_in, coalesce(delay, '0'))
        WHEN expires_at <= due_at THEN
            format('expires_at=%L is not after at=%L: it would never be delivered', expires_at, due_at)
        WHEN jsonb_typeof(headers) <> 'object' THEN
            format('headers=%s must be an object of text to text', mainspring.shown(headers::text))
        ELSE coalesce(
            mainspring.fault('key', key),
            mainspring.fault('correlation_id', correlation_id),
            mainspring.fault('to_group', to_group)
        )
    END;
    IF wrong IS NULL AND headers IS NOT NULL THEN
        SELECT
            '{' || coalesce(string_agg(to_json(h.name)::text || ':' || h.value::text, ',' ORDER BY h.name), '') || '}',
            min(CASE
                WHEN h.name = '' THEN 'a header has an empty name: remove it, or name it'
                WHEN left(lower(h.name), 11) = 'mainspring-' THEN
                    format('header %L begins with ''mainspring-'', which the library keeps for itself: rename it', h.name)
                WHEN jsonb_typeof(h.value) <> 'string' THEN
                    format('header %L: %s must be text to text: put quotes around it', h.name, h.value)
            END)
        INTO header_text, wrong
        FROM (SELECT each.key COLLATE "C", each.value FROM jsonb_each(headers) AS each) AS h (name, value);
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = wrong;
    END IF;
    wrong := CASE
        WHEN octet_length(body) > most THEN format(
            'the payload for topic %L is %s bytes, over the limit of %s: store it elsewhere and send a reference, or '
            'UPDATE mainspring.setting SET payload_limit = ...',
            topic, to_char(octet_length(body), 'FM9,999,999,999'), to_char(most, 'FM9,999,999,999')
        )
        -- Hardly any payload has so many brackets that it must be looked at twice.
        WHEN char_length(json_text) - char_length(translate(json_text, '[{', '')) > 64
            AND mainspring.is_deep(json_text) THEN
            format('the payload for topic %L nests deeper than 64 levels: flatten it, or send a reference to it', topic)
    END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded', MESSAGE = wrong;
    ELSIF raw IS NULL THEN
        BEGIN
            PERFORM json_text::json;
            -- The type json lets half a character pass, and no reader does; jsonb finds it, but minds a NUL.
            PERFORM CASE WHEN json_text ~* E'\\\\ud[89a-f]' THEN replace(json_text, E'\\u0000', E'\\u0001')::jsonb END;
        EXCEPTION WHEN data_exception THEN
            GET STACKED DIAGNOSTICS wrong = PG_EXCEPTION_DETAIL, place = PG_EXCEPTION_CONTEXT;
            wrong := format('the payload for topic %L is not JSON: %s', topic, wrong);
            RAISE EXCEPTION USING ERRCODE = 'invalid_text_representation', MESSAGE = wrong,
                DETAIL = split_part(place, E'\n', 1),
                HINT = 'Write JSON text, put to_jsonb(...) around a value, or pass bytes as bytea.';
        END;
    END IF;
    IF message_id IS NULL THEN
        -- UUIDv7 by the server's clock: milliseconds, a finer fraction in twelve bits, and chance.
        micros := extract(epoch FROM clock_timestamp()) * 1000000;
        message_id := (
            lpad(to_hex(micros / 1000), 12, '0') || to_hex(28672 + micros % 1000 * 4096 / 1000)
            || right(replace(gen_random_uuid()::text, '-', ''), 16)
        )::uuid;
    END IF;
    PERFORM FROM mainspring.publish_one(
        topic, kind, to_group, level, message_id, body, header_text, key, delay, due_at, expires_in,
        expires_at, correlation_id, NULL,
        -- The channel of the bell bears the schema's name.
        'mainspring' || '_' || (parse_ident('mainspring.bell'))[1], NULL
    );
    -- Sent again it is known as it is. What is known as something else was never sent before. A role that may publish and
    -- read nothing is not told what it is known as.
    IF NOT FOUND AND has_column_privilege('mainspring.message', 'topic', 'SELECT')
        AND has_column_privilege('mainspring.message', 'payload', 'SELECT') THEN
        SELECT format(
            'message %s on topic %L is not stored: its id is known as a message on topic %L%s', message_id, sent.topic,
            known.topic, CASE WHEN known.topic = sent.topic THEN ' with another payload' ELSE '' END
        )
        INTO wrong
        FROM mainspring.message AS known, (SELECT publish_checked.topic) AS sent
        WHERE known.id = message_id AND (known.topic <> sent.topic OR known.payload <> body);
        IF FOUND THEN
            RAISE WARNING USING ERRCODE = 'unique_violation', MESSAGE = wrong,
                HINT = 'Make the message_id of what makes the message one of its kind, its topic included.';
        END IF;
    END IF;
    RETURN message_id;
END
$function$;

-- The public ones: they differ in the payload only. A literal is text to PostgreSQL, and it is stored as it is
-- written; jsonb is stored as PostgreSQL writes it; bytea is no JSON at all. Names are compared byte by byte, whatever
-- the collation of the columns they come from.
CREATE FUNCTION mainspring.publish(
    topic text, payload text = NULL, key text = NULL, delay interval = NULL, at timestamptz = NULL, past text = NULL,
    priority text = NULL, headers jsonb = NULL, correlation_id text = NULL, message_id uuid = NULL,
    expires_in interval = NULL, expires_at timestamptz = NULL, to_group text = NULL, content_type text = NULL
) RETURNS uuid LANGUAGE sql AS $function$
SELECT mainspring.publish_checked(
    $1 COLLATE pg_catalog."C", $2, NULL, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14
)
$function$;
CREATE FUNCTION mainspring.publish(
    topic text, payload json, key text = NULL, delay interval = NULL, at timestamptz = NULL, past text = NULL,
    priority text = NULL, headers jsonb = NULL, correlation_id text = NULL, message_id uuid = NULL,
    expires_in interval = NULL, expires_at timestamptz = NULL, to_group text = NULL, content_type text = NULL
) RETURNS uuid LANGUAGE sql AS $function$
SELECT mainspring.publish_checked(
    $1 COLLATE pg_catalog."C", $2::pg_catalog.text, NULL, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14
)
$function$;
CREATE FUNCTION mainspring.publish(
    topic text, payload jsonb, key text = NULL, delay interval = NULL, at timestamptz = NULL, past text = NULL,
    priority text = NULL, headers jsonb = NULL, correlation_id text = NULL, message_id uuid = NULL,
    expires_in interval = NULL, expires_at timestamptz = NULL, to_group text = NULL, content_type text = NULL
) RETURNS uuid LANGUAGE sql AS $function$
SELECT mainspring.publish_checked(
    $1 COLLATE pg_catalog."C", $2::pg_catalog.text, NULL, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14
)
$function$;
CREATE FUNCTION mainspring.publish(
    topic text, payload bytea, key text = NULL, delay interval = NULL, at timestamptz = NULL, past text = NULL,
    priority text = NULL, headers jsonb = NULL, correlation_id text = NULL, message_id uuid = NULL,
    expires_in interval = NULL, expires_at timestamptz = NULL, to_group text = NULL, content_type text = NULL
) RETURNS uuid LANGUAGE sql AS $function$
SELECT mainspring.publish_checked(
    $1 COLLATE pg_catalog."C", NULL, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14
)
$function$;
