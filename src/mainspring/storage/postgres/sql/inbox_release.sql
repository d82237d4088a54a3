-- $1 group, $2 source, $3 message id, $4 by whom, $5 now. Answers one row when there was something to release.
WITH released AS (
    UPDATE mainspring.inbox
    SET status = 'seen', changed_at = coalesce($5::timestamptz, statement_timestamp())
    WHERE message_id = $3 AND source = $2 AND group_name = $1 AND status IN ('processing', 'dead')
    RETURNING message_id
)
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT coalesce($5::timestamptz, statement_timestamp()), $4, 'inbox release', released.message_id, $2 || ' in ' || $1
FROM released
RETURNING id
