-- $1 groups. Answers (name, app, handler, options, patterns) of those that are known.
SELECT
    g.name, g.app, g.handler, g.options,
    ARRAY(SELECT s.pattern FROM mainspring.subscription AS s WHERE s.group_name = g.name ORDER BY s.pattern)
FROM mainspring.groups AS g
WHERE g.name = ANY ($1::text[])
