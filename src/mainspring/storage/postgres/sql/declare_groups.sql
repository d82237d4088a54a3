-- $1 groups, $2 apps, $3 handlers, $4 options, $5 now.
-- What an operator set, as a pause, is not touched (invariant 13). A group of another app is left alone; who asks afterwards sees that it is.
INSERT INTO mainspring.groups (name, app, handler, options, declared_at)
SELECT d.name, d.app, d.handler, d.options, coalesce($5::timestamptz, statement_timestamp())
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS d (name, app, handler, options)
ORDER BY d.name
ON CONFLICT (name) DO UPDATE
SET handler = excluded.handler, options = excluded.options
WHERE groups.app = excluded.app
  AND (groups.handler, groups.options) IS DISTINCT FROM (excluded.handler, excluded.options)
