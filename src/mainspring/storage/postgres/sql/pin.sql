-- $1 seq, $2 epoch, $3 message id, $4 owner, $5 for how many milliseconds it is waited at the most. Locks the delivery for as
-- long as a handler's transaction lasts, where that reads from a snapshot: a heartbeat that changed the row after the snapshot
-- would make every later settle a serialization failure. The heartbeat passes over what is locked, and so does a claim.
-- Under READ COMMITTED there is nothing to lock, and a process that froze is not waited for. As in settle_wait, a shorter
-- lock_timeout stays, and what it was is set again.
WITH before AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS was
    WHERE current_setting('transaction_isolation') <> 'read committed'
),
bounded AS MATERIALIZED (
    SELECT
        was,
        set_config(
            'lock_timeout',
            CASE
                WHEN was::interval > interval '0' AND was::interval <= interval '1 millisecond' * $5::text::integer THEN was
                ELSE $5::text
            END,
            true
        ) AS now
    FROM before
),
pinned AS MATERIALIZED (
    SELECT d.seq
    FROM bounded
    CROSS JOIN LATERAL (
        SELECT seq
        FROM mainspring.delivery
        WHERE seq = $1
          AND epoch = $2
          AND message_id = $3
          AND coalesce(held_by, '') = $4
          AND bounded.now IS NOT NULL
        FOR UPDATE
    ) AS d
)
SELECT set_config('lock_timeout', bounded.was, true)
FROM bounded
CROSS JOIN (SELECT count(*) FROM pinned) AS waited_for
