-- ?1 now, ?2 limit. Of the first ones to be looked at those whose message is over.
DELETE FROM mainspring_likeness
WHERE hash IN (SELECT hash FROM mainspring_likeness WHERE until < ?1 ORDER BY until, hash LIMIT ?2)
  AND NOT EXISTS (SELECT 1 FROM mainspring_delivery AS d WHERE d.message_id = mainspring_likeness.message_id)
  AND NOT EXISTS (SELECT 1 FROM mainspring_parked AS p WHERE p.message_id = mainspring_likeness.message_id)
