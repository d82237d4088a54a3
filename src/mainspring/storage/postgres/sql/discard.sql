-- $1 message id, $2 group, $3 topic, $4 text of the error, $5 fingerprint, $6 messages and $7 groups that were picked: each
-- may be null; $8 limit, $9 by whom: null where somebody notes the whole; $10 how the choice is spelled, $11 now.
-- One row: how many were discarded.
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
        SELECT d.seq, d.message_id
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
            SELECT d.seq, d.message_id
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
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT
        coalesce($11::timestamptz, statement_timestamp()), count(DISTINCT chosen.message_id), false,
        array_agg(DISTINCT chosen.message_id)
    FROM chosen
    HAVING count(*) > 0
),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT coalesce($11::timestamptz, statement_timestamp()), $9::text, 'discard', $10, count(*) || ' discarded'
    FROM chosen
    HAVING count(*) > 0 AND $9 IS NOT NULL
)
SELECT count(*) FROM chosen
