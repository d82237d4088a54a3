-- What is to follow when all members of a join have ended: two drafts, as JSON. JOIN itself is a reserved word.
CREATE TABLE mainspring.joint (
    id uuid PRIMARY KEY,
    opened_at timestamptz NOT NULL,
    pending integer NOT NULL,
    done integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    on_done text,
    on_failed text
);
-- Counted down now and then, and no indexed column changes.
ALTER TABLE mainspring.joint SET (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

-- Members that have ended and are not counted yet. Whoever ends one adds a row and waits for nobody: a counter in the
-- row of the join would be locked by one worker while the others wait, and in a caller's transaction for as long as
-- that takes.
CREATE TABLE mainspring.joint_end (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    join_id uuid NOT NULL,
    done integer NOT NULL,
    failed integer NOT NULL
);
ALTER TABLE mainspring.joint_end SET (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

-- Plain messages have none: a null takes no room. A dead letter has none either, for it has been counted.
ALTER TABLE mainspring.delivery ADD COLUMN join_id uuid;
