-- $1 app, $2 names to leave, $3 limit, $4 for how long a group that nobody serves is waited for, $5 now. The columns of a
-- schedule, its deliveries that are unfinished and that wait, and what time it is. Locked until they have gone on, and
-- passed over by everybody else meanwhile (invariant 5).
WITH due AS MATERIALIZED (
    SELECT s.*
    FROM mainspring.schedule AS s
    WHERE s.app = $1
      AND s.next_at <= coalesce($5::timestamptz, statement_timestamp())
      AND s.paused_at IS NULL AND s.retired_at IS NULL
      AND s.name <> ALL ($2::text[])
      AND NOT EXISTS (SELECT FROM mainspring.freeze AS f WHERE f.app IN ('', $1))
    ORDER BY s.next_at, s.name
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
SELECT
    due.name, due.app, due.origin, due.definition, due.created_at, due.declared_at, due.base_at, due.next_at,
    due.overrides, due.edits, due.version, due.revision, due.paused_at, due.paused_by, due.pause_reason, due.retired_at,
    due.fired, due.missed, due.skipped,
    (
        SELECT count(*)
        -- The newest, here and below: that there are any is of interest, and whether there are too many. Where these are all
        -- left behind by a group that nobody serves, an older one that counts is not seen; it would have kept them from
        -- starting, unless overlaps were allowed then or they were asked for by hand.
        FROM (
            SELECT d.message_id, d.group_name, d.epoch
            FROM mainspring.delivery AS d
            WHERE d.schedule = due.name AND d.due_at <> '9999-12-31 00:00:00+00'
            ORDER BY d.seq DESC
            LIMIT 100
        ) AS e
        -- What nobody has begun, of a group that nobody serves, counts as long as no other group has begun it either.
        WHERE e.epoch > 0
           OR EXISTS (
                SELECT
                FROM mainspring.groups AS g
                WHERE g.name = e.group_name
                  AND coalesce(g.served_at, g.declared_at)
                      > coalesce($5::timestamptz, statement_timestamp()) - $4::interval
            )
           OR (SELECT m.copies FROM mainspring.message AS m WHERE m.id = e.message_id)
              = (SELECT count(*) FROM mainspring.delivery AS c WHERE c.message_id = e.message_id AND c.epoch = 0)
    ),
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM mainspring.delivery AS d
            WHERE d.schedule = due.name AND d.due_at = '9999-12-31 00:00:00+00'
            LIMIT 1000
        ) AS w
    ),
    coalesce($5::timestamptz, statement_timestamp())
FROM due
ORDER BY due.next_at, due.name
