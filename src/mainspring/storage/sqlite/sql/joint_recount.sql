-- What is pending has a delivery: what is pending beyond that has gone, and nobody has counted it.
SELECT
    j.id, j.opened_at, j.failed,
    j.pending - (
        SELECT count(*) FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_join WHERE d.join_id = j.id
    )
FROM mainspring_joint AS j
WHERE j.id >= ?1
ORDER BY j.id
LIMIT ?2
