-- ?1 message id, ?2 when it is to start at the earliest. What is nobody's waits for no earlier run.
UPDATE mainspring_parked SET due_at = max(due_at, ?2) WHERE message_id = ?1 AND ?2 < 253402214400000000
