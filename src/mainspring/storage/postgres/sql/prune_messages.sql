-- $1 how long ids are guarded, $2 limit, $3 now. One row: how many messages were removed, and whether
-- batches are left over.
WITH clock AS MATERIALIZED (
    SELECT coalesce($3::timestamptz, statement_timestamp()) AS now
),
-- Oldest first, as many batches as hold the limit, one at the least.
oldest AS MATERIALIZED (
    SELECT b.id, b.place = 1 OR b.ids <= $2 AS fits
    FROM (
        SELECT e.id, row_number() OVER batches AS place, sum(e.size) OVER batches AS ids
        FROM (
            SELECT id, at, size
            FROM mainspring.ended
            WHERE at < (SELECT clock.now FROM clock) - $1::interval
            ORDER BY at, id
            LIMIT $2 + 1
        ) AS e
        WINDOW batches AS (ORDER BY e.at, e.id ROWS UNBOUNDED PRECEDING)
    ) AS b
),
batch AS MATERIALIZED (
    SELECT e.id, e.at, e.second, e.message_ids
    FROM mainspring.ended AS e
    WHERE e.id = ANY (ARRAY(SELECT oldest.id FROM oldest WHERE oldest.fits))
    ORDER BY e.id
    FOR UPDATE SKIP LOCKED
),
consumed AS (
    DELETE FROM mainspring.ended WHERE id = ANY (ARRAY(SELECT batch.id FROM batch))
),
listed AS MATERIALIZED (
    SELECT each.id, bool_or(batch.second) AS second, max(batch.at) AS at
    FROM batch, unnest(batch.message_ids) AS each (id)
    GROUP BY each.id
),
-- Whoever still refers to it enlists it again at its own end.
needed AS MATERIALIZED (
    SELECT message_id FROM mainspring.delivery WHERE message_id = ANY (ARRAY(SELECT listed.id FROM listed))
    UNION ALL
    SELECT message_id FROM mainspring.dead WHERE message_id = ANY (ARRAY(SELECT listed.id FROM listed))
    UNION ALL
    SELECT message_id FROM mainspring.parked WHERE message_id = ANY (ARRAY(SELECT listed.id FROM listed))
    UNION ALL
    SELECT message_id FROM mainspring.run WHERE message_id = ANY (ARRAY(SELECT listed.id FROM listed))
),
unneeded AS MATERIALIZED (
    SELECT m.id, m.copies
    FROM mainspring.message AS m
    WHERE m.id = ANY (ARRAY(SELECT listed.id FROM listed))
      AND m.id NOT IN (SELECT needed.message_id FROM needed)
      -- A batch from before it was published speaks of an earlier life of the same id.
      AND m.published_at <= (SELECT listed.at FROM listed WHERE listed.id = m.id)
    ORDER BY m.id
    FOR UPDATE SKIP LOCKED
),
again AS MATERIALIZED (
    SELECT unneeded.id
    FROM unneeded JOIN listed ON listed.id = unneeded.id
    WHERE unneeded.copies <> 1 AND NOT listed.second
),
-- Another group may have ended it later than the one that enlisted it: its time counts from there.
postponed AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT (SELECT clock.now FROM clock), count(*), true, array_agg(again.id)
    FROM again
    HAVING count(*) > 0
),
removed AS (
    DELETE FROM mainspring.message
    WHERE id = ANY (ARRAY(SELECT unneeded.id FROM unneeded WHERE unneeded.id NOT IN (SELECT again.id FROM again)))
    RETURNING id
)
-- Where others hold all that fits, they go on.
SELECT
    (SELECT count(*) FROM removed),
    EXISTS (SELECT FROM oldest WHERE NOT oldest.fits) AND EXISTS (SELECT FROM batch)
