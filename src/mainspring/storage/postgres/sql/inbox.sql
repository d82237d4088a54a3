-- The inbox.

-- name: inbox_admit
-- $1 group, $2 source, $3 message id, $4 hash, $5 status to admit it with, $6 how long it may have been processing,
-- $7 now. One row: admitted, status, attempts, first seen, mismatch, whether that is news, now. Lengths of time go by their
-- seconds: a day has 24 hours, also where the caller's zone changes its clocks.
-- Instants are told in microseconds, since a caller's connection may read them in its own way.
SELECT
    is_admitted, stands, times, (extract(epoch FROM since) * 1000000)::bigint, is_mismatch, is_news,
    (extract(epoch FROM NOW($7)) * 1000000)::bigint
FROM mainspring.inbox_admit(
    $1::text, $2::text, $3::text, $4::bytea, $5::text,
    make_interval(secs => extract(epoch FROM $6::interval)::float8), $7::timestamptz
)

-- name: inbox_receive_all
-- $1 group, $2 source, $3 16 characters of a hash and a message id each; $4 to $23 as $1 to $20 of publish. One row: whether all of them
-- were new, and are marked as done and published; otherwise nothing is.
SELECT mainspring.inbox_receive_all(
    $1::text, $2::text, $3::text[],
    $4::text[], $5::text[], $6::text[], $7::smallint[],
    $8::integer[], $9::uuid[], $10::bytea[], $11::text[], $12::text[], $13::interval[], $14::timestamptz[],
    $15::interval[], $16::timestamptz[], $17::text[], $18::uuid[], $19::text[], $20::boolean[], $21::uuid[],
    $22::text, $23::timestamptz
)

-- name: inbox_release
-- $1 group, $2 source, $3 message id, $4 by whom, $5 now. Returns one row when there was something to release.
WITH released AS (
    UPDATE mainspring.inbox
    SET status = 'seen', changed_at = NOW($5)
    WHERE message_id = $3 AND source = $2 AND group_name = $1 AND status IN ('processing', 'dead')
    RETURNING message_id
)
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT NOW($5), $4, 'inbox release', released.message_id, $2 || ' in ' || $1
FROM released
RETURNING id
