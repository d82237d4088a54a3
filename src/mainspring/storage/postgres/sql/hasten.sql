-- $1 messages, $2 groups, $3 by whom: null where a line of the audit is there; $4 how the choice is spelled, $5 channel, $6 now.
-- One row: how many are due now.
WITH named AS MATERIALIZED (
    SELECT DISTINCT d.seq
    FROM unnest($1::uuid[], $2::text[]) AS p (message_id, group_name)
    CROSS JOIN LATERAL (
        SELECT seq FROM mainspring.delivery WHERE message_id = p.message_id AND group_name = p.group_name OFFSET 0
    ) AS d
    ORDER BY d.seq
),
-- In the order of their seq, as everybody locks who locks several. What waits for an earlier run of its schedule, until
-- model.schedule.NEVER, goes on waiting.
chosen AS MATERIALIZED (
    SELECT d.*
    FROM named
    CROSS JOIN LATERAL (
        SELECT seq, group_name
        FROM mainspring.delivery
        WHERE seq = named.seq
          AND num_nulls(held_by) = 1
          AND due_at > coalesce($6::timestamptz, statement_timestamp())
          AND due_at < '9999-12-31 00:00:00+00'
        FOR UPDATE
    ) AS d
),
hastened AS (
    UPDATE mainspring.delivery
    SET due_at = coalesce($6::timestamptz, statement_timestamp())
    WHERE seq = ANY (ARRAY(SELECT chosen.seq FROM chosen))
),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT coalesce($6::timestamptz, statement_timestamp()), $3::text, 'hasten', $4, count(*) || ' due now'
    FROM chosen
    HAVING count(*) > 0 AND $3 IS NOT NULL
),
rung AS MATERIALIZED (
    SELECT count(mainspring.ring($5, bell.group_name))
    FROM mainspring.bell
    WHERE bell.armed_until > coalesce($6::timestamptz, statement_timestamp())
      AND bell.group_name IN (SELECT chosen.group_name FROM chosen)
)
SELECT (SELECT count(*) FROM chosen)
FROM rung
