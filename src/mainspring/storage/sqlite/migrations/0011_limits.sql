-- Claims under a rate, counted in slots, of the whole group (its key is empty) and of keys. They count until then.
CREATE TABLE mainspring_spent (
    group_name text NOT NULL,
    key text NOT NULL,
    until integer NOT NULL,
    claims integer NOT NULL,
    PRIMARY KEY (group_name, key, until)
) WITHOUT ROWID;
CREATE INDEX mainspring_spent_over ON mainspring_spent (until);

-- The deliveries of a key in their order, and from key to key. Only those that nobody holds: claiming takes a row out of
-- it, instead of writing it once more.
CREATE INDEX mainspring_delivery_keyed ON mainspring_delivery (group_name, key, seq)
WHERE held_by IS NULL AND key IS NOT NULL;
