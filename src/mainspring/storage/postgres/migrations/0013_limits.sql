-- Whoever claims under the limits of a group writes its row first, and so they come one after the other. It is written,
-- not only locked: in a transaction that sees the world as of its beginning, the second one then fails and begins anew.
CREATE TABLE mainspring.limits (
    turn bigint NOT NULL,
    group_name text COLLATE "C" PRIMARY KEY
);
ALTER TABLE mainspring.limits SET (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

-- Claims under a rate, counted in slots, of the whole group (its key is empty) and of keys. They count until then.
CREATE TABLE mainspring.spent (
    until timestamptz NOT NULL,
    claims integer NOT NULL,
    group_name text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    PRIMARY KEY (group_name, key, until)
);
CREATE INDEX spent_over ON mainspring.spent (group_name, until);
ALTER TABLE mainspring.spent SET (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

-- The deliveries of a key in their order, and from key to key. Only those that nobody holds: claiming takes a row out of
-- it, instead of writing it once more. Not written IS NULL: whoever asks for that could also be given delivery_ready.
CREATE INDEX delivery_keyed ON mainspring.delivery (group_name, key, seq)
WHERE num_nulls(held_by) = 1 AND key IS NOT NULL;
