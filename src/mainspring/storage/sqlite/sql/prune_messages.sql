-- Whatever copies says when ?2 is set: it was passed over once already. ?1 is ids end to end, ?3 when they ended:
-- what was published later is another life of the same id.
WITH RECURSIVE place(n) AS (
    SELECT 0 WHERE length(?1) >= 16
    UNION ALL
    SELECT n + 1 FROM place WHERE (n + 2) * 16 <= length(?1)
)
DELETE FROM mainspring_message
WHERE id IN (SELECT substr(?1, n * 16 + 1, 16) FROM place)
  AND (?2 OR copies = 1)
  AND published_at <= ?3
  AND NOT EXISTS (SELECT 1 FROM mainspring_delivery AS r WHERE r.message_id = mainspring_message.id)
  AND NOT EXISTS (SELECT 1 FROM mainspring_dead AS r WHERE r.message_id = mainspring_message.id)
  AND NOT EXISTS (SELECT 1 FROM mainspring_parked AS r WHERE r.message_id = mainspring_message.id)
  AND NOT EXISTS (SELECT 1 FROM mainspring_run AS r WHERE r.message_id = mainspring_message.id)
