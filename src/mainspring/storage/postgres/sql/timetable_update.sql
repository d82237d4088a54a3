-- $1 to $19 the columns of a schedule, as arrays.
UPDATE mainspring.schedule AS s
SET app = v.app,
    origin = v.origin,
    definition = v.definition,
    declared_at = v.declared_at,
    base_at = v.base_at,
    next_at = v.next_at,
    overrides = v.overrides,
    edits = v.edits,
    version = v.version,
    revision = v.revision,
    paused_at = v.paused_at,
    paused_by = v.paused_by,
    pause_reason = v.pause_reason,
    retired_at = v.retired_at,
    fired = v.fired,
    missed = v.missed,
    skipped = v.skipped
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[],
    $8::timestamptz[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::timestamptz[], $14::text[],
    $15::text[], $16::timestamptz[], $17::bigint[], $18::bigint[], $19::bigint[]
) AS v (
    name, app, origin, definition, created_at, declared_at, base_at, next_at, overrides, edits, version, revision,
    paused_at, paused_by, pause_reason, retired_at, fired, missed, skipped
)
WHERE s.name = v.name
