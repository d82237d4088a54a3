DELETE FROM mainspring_run
WHERE status IN ('failed', 'snoozed')
  AND message_id = ?1
  AND group_name = (SELECT group_name FROM mainspring_delivery WHERE seq = ?2)
