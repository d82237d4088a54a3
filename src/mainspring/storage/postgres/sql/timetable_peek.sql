-- $1 app, $2 names to leave, $3 now. One row: how long until the next occurrence, whether anything of this app waits, whether
-- it is frozen, whether members of joins have ended that nobody has counted.
SELECT
    (
        SELECT s.next_at - coalesce($3::timestamptz, statement_timestamp())
        FROM mainspring.schedule AS s
        WHERE s.app = $1
          AND s.next_at IS NOT NULL AND s.paused_at IS NULL AND s.retired_at IS NULL
          AND s.name <> ALL ($2::text[])
        ORDER BY s.next_at
        LIMIT 1
    ),
    EXISTS (
        SELECT
        FROM mainspring.delivery AS d
        WHERE d.due_at = '9999-12-31 00:00:00+00' AND d.schedule IS NOT NULL
          -- What is left of a schedule that is gone, is for everybody.
          AND coalesce((SELECT s.app FROM mainspring.schedule AS s WHERE s.name = d.schedule), $1) = $1
    ),
    EXISTS (SELECT FROM mainspring.freeze AS f WHERE f.app IN ('', $1)),
    EXISTS (SELECT FROM mainspring.joint_end)
