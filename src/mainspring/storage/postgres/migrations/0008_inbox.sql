-- Messages of others, each under the id that its sender gave it. The key begins with that id, so that one is found by it
-- alone. Three names of 200 characters, four bytes each, are still within what a btree can hold.
CREATE TABLE mainspring.inbox (
    first_seen_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    mismatched_at timestamptz,
    attempts integer NOT NULL,
    status text COLLATE "C" NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    group_name text COLLATE "C" NOT NULL,
    hash bytea,
    error text,
    PRIMARY KEY (message_id, source, group_name)
);
-- Every row is in one of the two: what somebody is at is looked for by its age, all else is pruned by it.
CREATE INDEX inbox_processing ON mainspring.inbox (changed_at) WHERE status = 'processing';
CREATE INDEX inbox_over ON mainspring.inbox (changed_at) WHERE status <> 'processing';

-- In a function because each of its statements sees, at READ COMMITTED, what was committed while the one before it has
-- waited; within one statement nobody could say truthfully how the row of somebody faster stands. Above READ COMMITTED
-- that somebody's commit is a serialization failure, as for any other row. It has the caller's own rights.
CREATE FUNCTION mainspring.inbox_admit(
    -- group, source, message id, hash, status to be let in with, how long somebody may have been at it, now
    text, text, text, bytea, text, interval, timestamptz
) RETURNS TABLE (
    is_admitted boolean, stands text, times integer, since timestamptz, is_mismatch boolean, is_news boolean
)
LANGUAGE plpgsql AS $function$
DECLARE
    moment CONSTANT timestamptz := coalesce($7, statement_timestamp());
    known mainspring.inbox%ROWTYPE;
BEGIN
LOOP
    -- Of all who come at once one inserts. The others wait here until that transaction has ended: it was committed, and
    -- they go on below; or it was rolled back, and one of them inserts.
    INSERT INTO mainspring.inbox (
        first_seen_at, changed_at, attempts, status, message_id, source, group_name, hash
    )
    VALUES (moment, moment, 1, $5, $3, $2, $1, $4)
    ON CONFLICT (message_id, source, group_name) DO NOTHING;
    IF FOUND THEN
        RETURN QUERY SELECT true, $5, 1, moment, false, false;
        RETURN;
    END IF;

    SELECT i.* INTO known
    FROM mainspring.inbox AS i
    WHERE i.message_id = $3 AND i.source = $2 AND i.group_name = $1;
    CONTINUE WHEN NOT FOUND;  -- pruned just now

    IF known.hash <> $4 THEN
        is_news := false;
        IF known.mismatched_at IS NULL THEN
            UPDATE mainspring.inbox AS i SET mismatched_at = moment
            WHERE i.message_id = $3 AND i.source = $2 AND i.group_name = $1 AND i.mismatched_at IS NULL;
            is_news := FOUND;
        END IF;
        RETURN QUERY SELECT false, known.status, known.attempts, known.first_seen_at, true, is_news;
        RETURN;
    END IF;

    IF known.status = 'seen' OR (known.status = 'processing' AND known.changed_at <= moment - $6) THEN
        UPDATE mainspring.inbox AS i
        SET status = $5, attempts = i.attempts + 1, hash = coalesce(i.hash, $4), changed_at = moment
        WHERE i.message_id = $3 AND i.source = $2 AND i.group_name = $1
          AND i.attempts = known.attempts AND i.status = known.status;
        CONTINUE WHEN NOT FOUND;  -- somebody was faster
        RETURN QUERY SELECT true, $5, known.attempts + 1, known.first_seen_at, false, false;
        RETURN;
    END IF;

    RETURN QUERY SELECT false, known.status, known.attempts, known.first_seen_at, false, false;
    RETURN;
END LOOP;
END
$function$;
