-- $1 topic, $2 content type, $3 group, $4 priority, $5 id, $6 payload, $7 headers, $8 key, $9 delay, $10 instant,
-- $11 time to live, $12 expiry, $13 correlation, $14 causation: the draft; $15 channel, $16 now. Answers its id if it is
-- stored now. Lengths of time go by their seconds: a day has 24 hours, also where the caller's zone changes its clocks.
SELECT mainspring.publish_one(
    $1::text, $2::text, $3::text, $4::smallint, $5::uuid, $6::bytea, $7::text, $8::text,
    make_interval(secs => extract(epoch FROM $9::interval)::float8), $10::timestamptz,
    make_interval(secs => extract(epoch FROM $11::interval)::float8), $12::timestamptz,
    $13::text, $14::uuid, $15::text, $16::timestamptz
)
