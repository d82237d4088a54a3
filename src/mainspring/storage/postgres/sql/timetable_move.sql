-- $1 names, $2 their next time so far, $3 revisions, $4 next times, $5 bases, $6 fired, $7 missed, $8 skipped.
-- Guarded by the old time and the revision, though the rows are locked: whoever lost the lock moves nothing (invariant 5).
UPDATE mainspring.schedule AS s
SET next_at = v.next_at,
    base_at = v.base_at,
    fired = s.fired + v.fired,
    missed = s.missed + v.missed,
    skipped = s.skipped + v.skipped
FROM unnest(
    $1::text[], $2::timestamptz[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::bigint[], $7::bigint[],
    $8::bigint[]
) AS v (name, old_next_at, revision, next_at, base_at, fired, missed, skipped)
WHERE s.name = v.name AND s.next_at = v.old_next_at AND s.revision = v.revision
RETURNING s.name
