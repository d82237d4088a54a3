-- ?1 message id, ?2 when its deliveries start: later than they are due by a jitter, or when an earlier run has ended.
UPDATE mainspring_delivery SET due_at = max(due_at, ?2) WHERE message_id = ?1
