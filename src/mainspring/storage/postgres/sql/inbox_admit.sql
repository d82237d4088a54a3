-- $1 group, $2 source, $3 message id, $4 hash, $5 status to be let in with, $6 how long somebody may have been at it,
-- $7 now. One row: admitted, status, attempts, first seen, mismatch, whether that is news, now. Lengths of time go by their
-- seconds: a day has 24 hours, also where the caller's zone changes its clocks.
-- Instants are told in microseconds, since a caller's connection may read them in its own way.
SELECT
    is_admitted, stands, times, (extract(epoch FROM since) * 1000000)::bigint, is_mismatch, is_news,
    (extract(epoch FROM coalesce($7::timestamptz, statement_timestamp())) * 1000000)::bigint
FROM mainspring.inbox_admit(
    $1::text, $2::text, $3::text, $4::bytea, $5::text,
    make_interval(secs => extract(epoch FROM $6::interval)::float8), $7::timestamptz
)
