-- $1 message id, $2 group, $3 topic, $4 text of the error, $5 fingerprint, $6 messages and $7 groups that were picked: each
-- may be null; $8 limit, $9 by whom: null where a line of the audit is there already; $10 how the choice is spelled, $11 now,
-- $12 channel, $13 whether they live again, or are gone for good. One row: how many there were.
WITH named AS MATERIALIZED (
    SELECT DISTINCT d.seq
    FROM unnest($6::uuid[], $7::text[]) AS p (message_id, group_name)
    CROSS JOIN LATERAL (
        -- Not by an index that begins with the group: all of the group's would be read.
        SELECT seq FROM mainspring.dead WHERE message_id = p.message_id AND group_name || '' = p.group_name OFFSET 0
    ) AS d
    ORDER BY d.seq
),
-- In the order of their seq, as everybody locks who locks several.
chosen AS MATERIALIZED (
    SELECT found.*
    FROM (
        SELECT d.*
        FROM mainspring.dead AS d
        WHERE $6::uuid[] IS NULL
          AND ($1::uuid IS NULL OR d.message_id = $1)
          AND ($2::text IS NULL OR d.group_name = $2)
          AND ($3::text IS NULL OR d.topic = $3)
          AND ($4::text IS NULL OR position(lower($4) IN lower(d.error)) > 0)
          AND ($5::text IS NULL OR d.fingerprint = $5)
        ORDER BY d.seq
        LIMIT $8
        FOR UPDATE
    ) AS found
    UNION ALL
    SELECT found.*
    FROM (
        SELECT d.*
        FROM named
        CROSS JOIN LATERAL (
            SELECT d.*
            FROM mainspring.dead AS d
            WHERE d.seq = named.seq
              AND ($1::uuid IS NULL OR d.message_id = $1)
              AND ($2::text IS NULL OR d.group_name = $2)
              AND ($3::text IS NULL OR d.topic = $3)
              AND ($4::text IS NULL OR position(lower($4) IN lower(d.error)) > 0)
              AND ($5::text IS NULL OR d.fingerprint = $5)
            FOR UPDATE
        ) AS d
        LIMIT $8
    ) AS found
),
unburied AS (
    DELETE FROM mainspring.dead WHERE seq = ANY (ARRAY(SELECT chosen.seq FROM chosen))
),
revived AS (
    INSERT INTO mainspring.delivery (
        seq, message_id, group_name, priority, due_at, scheduled_for, published_at, key, schedule, manual, epoch
    )
    SELECT
        seq, message_id, group_name, priority, coalesce($11::timestamptz, statement_timestamp()), scheduled_for,
        published_at, key, schedule, manual,
        -- epoch never goes back: it is the fence (invariant 2). A revival opens a new one, as a claim does.
        epoch + 1
    FROM chosen
    WHERE $13::boolean
    ORDER BY seq
    RETURNING group_name
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT
        coalesce($11::timestamptz, statement_timestamp()), count(DISTINCT chosen.message_id), false,
        array_agg(DISTINCT chosen.message_id)
    FROM chosen
    WHERE NOT $13
    HAVING count(*) > 0
),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT
        coalesce($11::timestamptz, statement_timestamp()), $9::text, CASE WHEN $13 THEN 'revive' ELSE 'discard' END, $10,
        count(*) || CASE WHEN $13 THEN ' revived' ELSE ' discarded' END
    FROM chosen
    HAVING count(*) > 0 AND $9 IS NOT NULL
),
rung AS MATERIALIZED (
    SELECT count(mainspring.ring($12, bell.group_name))
    FROM mainspring.bell
    WHERE bell.armed_until > coalesce($11::timestamptz, statement_timestamp())
      AND bell.group_name IN (SELECT revived.group_name FROM revived)
)
SELECT (SELECT count(*) FROM chosen)
FROM rung
