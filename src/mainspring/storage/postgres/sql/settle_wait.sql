-- $1 seqs, $2 for how many milliseconds at the most, null: as long as its session waits for any lock. For a caller's own
-- transaction, which waits for a row as for any other of its own: a heartbeat may be at it. A shorter lock_timeout of its own
-- stays, and what it was is set again: each step reads from the one before, so that they are taken in this order.
WITH before AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS was
),
bounded AS MATERIALIZED (
    SELECT
        was,
        set_config(
            'lock_timeout',
            CASE
                WHEN $2::text IS NULL THEN was
                WHEN was::interval > interval '0' AND was::interval <= interval '1 millisecond' * $2::text::integer THEN was
                ELSE $2::text
            END,
            true
        ) AS now
    FROM before
),
waited AS MATERIALIZED (
    SELECT d.seq
    FROM bounded
    CROSS JOIN LATERAL (
        SELECT seq
        FROM mainspring.delivery
        WHERE seq = ANY ($1::bigint[]) AND bounded.now IS NOT NULL
        ORDER BY seq
        FOR UPDATE
    ) AS d
)
SELECT set_config('lock_timeout', bounded.was, true)
FROM bounded
CROSS JOIN (SELECT count(*) FROM waited) AS waited_for
