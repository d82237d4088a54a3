-- One row per likeness that was published lately: what a message is alike in, hashed, and the last one that was stored.
-- until is when it is looked at whether the row is still needed.
CREATE TABLE mainspring.likeness (
    published_at timestamptz NOT NULL,
    until timestamptz NOT NULL,
    message_id uuid NOT NULL,
    hash bytea PRIMARY KEY
);
CREATE INDEX likeness_until ON mainspring.likeness (until, hash);
-- A row is written again by whoever publishes the same once more.
ALTER TABLE mainspring.likeness SET (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

-- In a function because each of its statements sees, at READ COMMITTED, what was committed while the one before it has
-- waited. Above READ COMMITTED the commit of somebody faster is a serialization failure, as for any other row. It has the
-- caller's own rights. Answers what is to be done, and the earlier message:
--   'again': an earlier copy of this call was written, and its reply was lost; 'duplicate': the earlier one counts;
--   'replace': what has not begun of the earlier one makes room; 'store': there is none that counts.
-- After the last two the row names the new message, and is locked until the transaction ends.
CREATE FUNCTION mainspring.likeness_enter(
    -- hash, id of the new message, scope, window (for the scope 'window'), keep, how long the row is kept at least, now
    bytea, uuid, text, interval, text, interval, timestamptz
) RETURNS TABLE (fate text, earlier uuid)
LANGUAGE plpgsql AS $function$
DECLARE
    moment CONSTANT timestamptz := coalesce($7, statement_timestamp());
    known mainspring.likeness%ROWTYPE;
    counts boolean;
BEGIN
    IF EXISTS (SELECT FROM mainspring.message AS m WHERE m.id = $2) THEN
        RETURN QUERY SELECT 'again', $2;
        RETURN;
    END IF;

    -- Of all who come at once one goes on. The others wait here until that transaction has ended.
    INSERT INTO mainspring.likeness AS l (published_at, until, message_id, hash)
    VALUES (moment, moment + $6, $2, $1)
    ON CONFLICT (hash) DO UPDATE SET until = greatest(l.until, l.published_at + $6)
    RETURNING l.* INTO known;

    IF known.message_id = $2 THEN
        -- Ours, from just now; or from an earlier copy of this call, whose commit we have waited for.
        RETURN QUERY
        SELECT CASE WHEN EXISTS (SELECT FROM mainspring.message AS m WHERE m.id = $2) THEN 'again' ELSE 'store' END, $2;
        RETURN;
    END IF;
    -- The earlier copy may have been replaced by others since.
    IF EXISTS (SELECT FROM mainspring.message AS m WHERE m.id = $2) THEN
        RETURN QUERY SELECT 'again', $2;
        RETURN;
    END IF;

    IF $5 = 'last' THEN
        counts := false;
    ELSIF $3 = 'window' THEN
        counts := known.published_at > moment - $4;
    ELSE
        -- One statement, because a parked message may be on its way to its groups.
        SELECT
            EXISTS (SELECT FROM mainspring.parked AS p WHERE p.message_id = known.message_id)
            OR (
                count(*) > 0
                -- Where fewer copies are left than there were, one has ended, so that it had begun.
                AND ($3 = 'running' OR (
                    bool_and(d.epoch = 0)
                    AND count(*) >= (SELECT m.copies FROM mainspring.message AS m WHERE m.id = known.message_id)
                ))
            )
        INTO counts
        FROM mainspring.delivery AS d
        WHERE d.message_id = known.message_id;
    END IF;
    IF counts THEN
        RETURN QUERY SELECT 'duplicate', known.message_id;
        RETURN;
    END IF;

    UPDATE mainspring.likeness AS l SET message_id = $2, published_at = moment, until = moment + $6 WHERE l.hash = $1;
    RETURN QUERY SELECT CASE WHEN $5 = 'last' THEN 'replace' ELSE 'store' END, known.message_id;
END
$function$;

-- In a function for the same reason: whether a row is needed is asked when it is locked, and names its last message.
CREATE FUNCTION mainspring.likeness_prune(
    -- limit, after how long a row that is still needed is looked at again, now
    bigint, interval, timestamptz
) RETURNS bigint
LANGUAGE plpgsql AS $function$
DECLARE
    moment CONSTANT timestamptz := coalesce($3, statement_timestamp());
    hashes bytea[];
    removed bigint;
BEGIN
    hashes := ARRAY(
        SELECT l.hash
        FROM mainspring.likeness AS l
        WHERE l.until < moment
        ORDER BY l.until, l.hash
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    );
    DELETE FROM mainspring.likeness AS l
    WHERE l.hash = ANY (hashes)
      AND NOT EXISTS (SELECT FROM mainspring.delivery AS d WHERE d.message_id = l.message_id)
      AND NOT EXISTS (SELECT FROM mainspring.parked AS p WHERE p.message_id = l.message_id);
    GET DIAGNOSTICS removed = ROW_COUNT;
    -- Those that are needed make room for the others: a batch is never all of what waits for a year.
    UPDATE mainspring.likeness AS l SET until = moment + $2 WHERE l.hash = ANY (hashes);
    RETURN removed;
END
$function$;
