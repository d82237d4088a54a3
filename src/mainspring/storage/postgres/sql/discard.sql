-- $1 message id, $2 group, $3 topic, $4 text of the error: each may be null; $5 limit, $6 by whom, $7 how the
-- choice is spelled, $8 now. One row: how many were discarded.
WITH chosen AS MATERIALIZED (
    SELECT d.seq, d.message_id
    FROM mainspring.dead AS d
    WHERE ($1::uuid IS NULL OR d.message_id = $1)
      AND ($2::text IS NULL OR d.group_name = $2)
      AND ($3::text IS NULL OR d.topic = $3)
      AND ($4::text IS NULL OR position(lower($4) IN lower(d.error)) > 0)
    ORDER BY d.seq
    LIMIT $5
    FOR UPDATE
),
unburied AS (
    DELETE FROM mainspring.dead WHERE seq = ANY (ARRAY(SELECT chosen.seq FROM chosen))
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT
        coalesce($8::timestamptz, statement_timestamp()), count(DISTINCT chosen.message_id), false,
        array_agg(DISTINCT chosen.message_id)
    FROM chosen
    HAVING count(*) > 0
),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT coalesce($8::timestamptz, statement_timestamp()), $6, 'discard', $7, count(*) || ' discarded'
    FROM chosen
    HAVING count(*) > 0
)
SELECT count(*) FROM chosen
