-- $1 group, $2 source, $3 message id, $4 hash, $5 status to be let in with, $6 how long somebody may have been at it,
-- $7 now. One row: admitted, status, attempts, first seen, mismatch, whether that is news. Lengths of time go by their
-- seconds: a day has 24 hours, also where the caller's zone changes its clocks.
SELECT is_admitted, stands, times, since, is_mismatch, is_news
FROM mainspring.inbox_admit(
    $1::text, $2::text, $3::text, $4::bytea, $5::text,
    make_interval(secs => extract(epoch FROM $6::interval)::float8), $7::timestamptz
)
