WITH claim AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::integer[]) AS c (seq, epoch)
),
found AS MATERIALIZED (
    SELECT d.seq, d.epoch, d.held_by IS NOT NULL AS held, d.ctid, d.message_id
    FROM mainspring.delivery AS d
    WHERE d.seq = ANY ($1)
    ORDER BY d.seq
    FOR UPDATE
),
ours AS MATERIALIZED (
    SELECT found.seq FROM found JOIN claim USING (seq, epoch) WHERE found.held
),
done AS (
    DELETE FROM mainspring.delivery AS d
    WHERE d.seq = ANY (ARRAY(SELECT ours.seq FROM ours))
    RETURNING d.seq, d.message_id
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT coalesce($3::timestamptz, statement_timestamp()), count(*), false, array_agg(done.message_id)
    FROM done
    HAVING count(*) > 0
)
SELECT claim.seq, claim.epoch, coalesce(found.epoch <> claim.epoch, false)
FROM claim LEFT JOIN found ON found.seq = claim.seq
WHERE (SELECT count(*) FROM ours) < cardinality($1)
  AND claim.seq NOT IN (SELECT ours.seq FROM ours)
