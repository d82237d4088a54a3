-- The groups that have something due.
SELECT DISTINCT group_name FROM mainspring_delivery WHERE held_by IS NULL AND due_at <= ?1
