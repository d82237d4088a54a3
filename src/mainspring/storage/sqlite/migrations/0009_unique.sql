-- One row per likeness that was published lately: what a message is alike in, hashed, and the last one that was stored.
-- until is when it is looked at whether the row is still needed.
CREATE TABLE mainspring_likeness (
    hash blob NOT NULL PRIMARY KEY,
    message_id blob NOT NULL,
    published_at integer NOT NULL,
    until integer NOT NULL
) WITHOUT ROWID;
CREATE INDEX mainspring_likeness_until ON mainspring_likeness (until, hash);
