-- concurrently
-- The deliveries that have no key, in the order in which they are claimed: where limits make those of many keys wait, they are
-- found without going through all of these. Not written IS NULL: a query that says so could also be given delivery_ready.
CREATE INDEX CONCURRENTLY delivery_keyless ON mainspring.delivery (group_name, priority, due_at, seq)
WHERE num_nulls(held_by) = 1 AND key IS NULL;
