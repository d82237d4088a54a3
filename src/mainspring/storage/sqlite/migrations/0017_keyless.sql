-- The deliveries that have no key, in the order in which they are claimed: where limits make those of many keys wait, they are
-- found without going through all of these.
CREATE INDEX mainspring_delivery_keyless ON mainspring_delivery (group_name, priority, due_at, seq)
WHERE held_by IS NULL AND key IS NULL;
