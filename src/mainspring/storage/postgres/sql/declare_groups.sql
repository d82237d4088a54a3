-- $1 groups, $2 apps, $3 handlers, $4 options, $5 versions, $6 now.
-- What an operator set, as a pause, is not touched (invariant 13). A group of another app is left alone; who asks afterwards sees that it
-- is. What a newer version has written stays (invariant 26).
INSERT INTO mainspring.groups (name, app, handler, options, version, declared_at)
SELECT d.name, d.app, d.handler, d.options, d.version, coalesce($6::timestamptz, statement_timestamp())
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[]) AS d (name, app, handler, options, version)
ORDER BY d.name
ON CONFLICT (name) DO UPDATE
SET handler = excluded.handler, options = excluded.options, version = excluded.version
WHERE groups.app = excluded.app AND groups.version <= excluded.version
