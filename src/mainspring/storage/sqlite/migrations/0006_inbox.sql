-- Messages of others, each under the id that its sender gave it. The key begins with that id, so that one is found by it
-- alone.
CREATE TABLE mainspring_inbox (
    message_id text NOT NULL,
    source text NOT NULL,
    group_name text NOT NULL,
    status text NOT NULL,
    attempts integer NOT NULL,
    first_seen_at integer NOT NULL,
    changed_at integer NOT NULL,
    hash blob,
    error text,
    mismatched_at integer,
    PRIMARY KEY (message_id, source, group_name)
);
-- Every row is in one of the two: what somebody is at is looked for by its age, all else is pruned by it.
CREATE INDEX mainspring_inbox_processing ON mainspring_inbox (changed_at) WHERE status = 'processing';
CREATE INDEX mainspring_inbox_over ON mainspring_inbox (changed_at) WHERE status <> 'processing';
