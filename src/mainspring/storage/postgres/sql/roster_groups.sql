-- $1 now. A row per group (name null when there is none): now, then columns in the order of model.views.GroupView.
SELECT
    clock.now, g.name, g.app,
    ARRAY(SELECT s.pattern FROM mainspring.subscription AS s WHERE s.group_name = g.name ORDER BY s.pattern),
    g.handler, g.options, g.declared_at, g.served_at, g.paused_at, g.paused_by, g.pause_reason
FROM (SELECT coalesce($1::timestamptz, statement_timestamp()) AS now) AS clock
LEFT JOIN mainspring.groups AS g ON true
ORDER BY g.name
