-- $1 hash, $2 id of the new message, $3 scope, $4 window, $5 keep, $6 how long it is remembered, $7 now. One row: what is to
-- be done, and the earlier message. Lengths of time go by their seconds: a day has 24 hours, also where the caller's zone
-- changes its clocks.
SELECT fate, earlier
FROM mainspring.likeness_enter(
    $1::bytea, $2::uuid, $3::text, make_interval(secs => extract(epoch FROM $4::interval)::float8), $5::text,
    make_interval(secs => extract(epoch FROM $6::interval)::float8), $7::timestamptz
)
