-- What is to follow when all members of a join have ended: two drafts, as JSON. JOIN itself is a reserved word.
CREATE TABLE mainspring_joint (
    id blob NOT NULL PRIMARY KEY,
    opened_at integer NOT NULL,
    pending integer NOT NULL,
    done integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    on_done text,
    on_failed text
);
CREATE INDEX mainspring_joint_complete ON mainspring_joint (id) WHERE pending <= 0;

-- Plain messages have none. A dead letter has none either, for it has been counted.
ALTER TABLE mainspring_delivery ADD COLUMN join_id blob;
