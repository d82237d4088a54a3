-- $1 message id, $2 group, $3 by whom, $4 detail, $5 now. Answers one row when there was such a dead letter.
WITH unburied AS (
    DELETE FROM mainspring.dead WHERE message_id = $1 AND group_name = $2 RETURNING message_id
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT coalesce($5::timestamptz, statement_timestamp()), 1, false, ARRAY[unburied.message_id]
    FROM unburied
)
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT coalesce($5::timestamptz, statement_timestamp()), $3, 'replace', unburied.message_id::text, $4
FROM unburied
RETURNING id
