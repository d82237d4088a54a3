-- $1 to $19 the columns of a schedule, as arrays. Answers the names that are new: another may have been faster.
INSERT INTO mainspring.schedule (
    name, app, origin, definition, created_at, declared_at, base_at, next_at, overrides, edits, version, revision,
    paused_at, paused_by, pause_reason, retired_at, fired, missed, skipped
)
SELECT v.*
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[],
    $8::timestamptz[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::timestamptz[], $14::text[],
    $15::text[], $16::timestamptz[], $17::bigint[], $18::bigint[], $19::bigint[]
) AS v
ON CONFLICT (name) DO NOTHING
RETURNING name
