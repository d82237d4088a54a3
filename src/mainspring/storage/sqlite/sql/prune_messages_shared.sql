-- ?1 is ids end to end, 16 bytes each: a blob goes into SQL as one parameter, and JSON cannot hold one.
WITH RECURSIVE place(n) AS (
    SELECT 0 WHERE length(?1) >= 16
    UNION ALL
    SELECT n + 1 FROM place WHERE (n + 2) * 16 <= length(?1)
)
SELECT m.id
FROM mainspring_message AS m
WHERE m.id IN (SELECT substr(?1, n * 16 + 1, 16) FROM place)
  AND m.copies <> 1
  AND m.published_at <= ?2
  AND NOT EXISTS (SELECT 1 FROM mainspring_delivery AS r WHERE r.message_id = m.id)
  AND NOT EXISTS (SELECT 1 FROM mainspring_dead AS r WHERE r.message_id = m.id)
  AND NOT EXISTS (SELECT 1 FROM mainspring_parked AS r WHERE r.message_id = m.id)
  AND NOT EXISTS (SELECT 1 FROM mainspring_run AS r WHERE r.message_id = m.id)
