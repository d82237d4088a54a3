-- Times are integer microseconds since 1970, UTC. Ids are 16-byte blobs. Truth values are 0 and 1.
-- Columns are declared integer, text or blob and nothing else, so that no converter which a caller has
-- registered for its own types ever reads ours.

-- An ordinary table, not WITHOUT ROWID: payloads in an index tree would leave it a handful of keys per page.
CREATE TABLE mainspring_message (
    id blob NOT NULL PRIMARY KEY,
    topic text NOT NULL,
    key text,
    payload blob NOT NULL,
    content_type text NOT NULL,
    headers text,
    correlation_id text,
    causation_id blob,
    published_at integer NOT NULL,
    expires_at integer,
    copies integer NOT NULL
);
CREATE INDEX mainspring_message_key ON mainspring_message (topic, key) WHERE key IS NOT NULL;

-- AUTOINCREMENT: a seq is never used twice, or a claim could settle a stranger and a revival could collide.
CREATE TABLE mainspring_delivery (
    seq integer PRIMARY KEY AUTOINCREMENT,
    message_id blob NOT NULL,
    group_name text NOT NULL,
    priority integer NOT NULL,
    due_at integer NOT NULL,
    epoch integer NOT NULL DEFAULT 0,
    attempt integer NOT NULL DEFAULT 0,
    deaths integer NOT NULL DEFAULT 0,
    suspect integer NOT NULL DEFAULT 0,
    held_by text,
    scheduled_for integer NOT NULL,
    published_at integer NOT NULL,
    key text,
    cancel_asked integer NOT NULL DEFAULT 0,
    UNIQUE (message_id, group_name)
);
CREATE INDEX mainspring_delivery_ready ON mainspring_delivery (group_name, priority, due_at, seq) WHERE held_by IS NULL;
CREATE INDEX mainspring_delivery_held ON mainspring_delivery (group_name, due_at, seq) WHERE held_by IS NOT NULL;

CREATE TABLE mainspring_dead (
    seq integer PRIMARY KEY,
    message_id blob NOT NULL,
    group_name text NOT NULL,
    topic text NOT NULL,
    key text,
    priority integer NOT NULL,
    epoch integer NOT NULL,
    attempt integer NOT NULL,
    deaths integer NOT NULL,
    scheduled_for integer NOT NULL,
    published_at integer NOT NULL,
    kind text NOT NULL,
    error text NOT NULL,
    buried_at integer NOT NULL,
    UNIQUE (message_id, group_name)
);
CREATE INDEX mainspring_dead_group ON mainspring_dead (group_name, seq);
CREATE INDEX mainspring_dead_age ON mainspring_dead (buried_at);

CREATE TABLE mainspring_parked (
    seq integer PRIMARY KEY AUTOINCREMENT,
    message_id blob NOT NULL UNIQUE,
    topic text NOT NULL,
    key text,
    priority integer NOT NULL,
    due_at integer NOT NULL,
    scheduled_for integer NOT NULL,
    published_at integer NOT NULL,
    parked_at integer NOT NULL
);
CREATE INDEX mainspring_parked_topic ON mainspring_parked (topic, seq);
CREATE INDEX mainspring_parked_age ON mainspring_parked (parked_at);

CREATE TABLE mainspring_run (
    id integer PRIMARY KEY AUTOINCREMENT,
    message_id blob NOT NULL,
    group_name text NOT NULL,
    topic text NOT NULL,
    attempt integer NOT NULL,
    status text NOT NULL,
    started_at integer NOT NULL,
    finished_at integer NOT NULL,
    node text,
    kind text,
    error text,
    traceback text,
    output text
);
CREATE INDEX mainspring_run_message ON mainspring_run (message_id);
CREATE INDEX mainspring_run_group ON mainspring_run (group_name, id);
-- By status first: successes are pruned long before failures, and never wade through them.
CREATE INDEX mainspring_run_age ON mainspring_run (status, finished_at);

-- One row per batch that ended something; message_ids is its ids end to end, 16 bytes each.
CREATE TABLE mainspring_ended (
    id integer PRIMARY KEY,
    at integer NOT NULL,
    second integer NOT NULL,
    message_ids blob NOT NULL
);
CREATE INDEX mainspring_ended_age ON mainspring_ended (at);

CREATE TABLE mainspring_subscription (
    pattern text NOT NULL,
    group_name text NOT NULL,
    wild integer NOT NULL,
    matcher text NOT NULL,
    PRIMARY KEY (pattern, group_name)
) WITHOUT ROWID;
CREATE INDEX mainspring_subscription_wild ON mainspring_subscription (pattern) WHERE wild;
CREATE INDEX mainspring_subscription_group ON mainspring_subscription (group_name);

CREATE TABLE mainspring_groups (
    name text NOT NULL PRIMARY KEY,
    app text NOT NULL,
    handler text NOT NULL,
    options text NOT NULL,
    declared_at integer NOT NULL,
    served_at integer,
    paused_at integer,
    paused_by text,
    pause_reason text
) WITHOUT ROWID;
CREATE INDEX mainspring_groups_paused ON mainspring_groups (name) WHERE paused_at IS NOT NULL;

CREATE TABLE mainspring_worker (
    name text NOT NULL PRIMARY KEY,
    app text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    groups text NOT NULL,
    in_hand integer NOT NULL,
    bell text NOT NULL,
    started_at integer NOT NULL,
    beat_at integer NOT NULL
) WITHOUT ROWID;

CREATE TABLE mainspring_tally (
    worker text NOT NULL,
    group_name text NOT NULL,
    handled integer NOT NULL,
    failed integer NOT NULL,
    PRIMARY KEY (worker, group_name)
) WITHOUT ROWID;

CREATE TABLE mainspring_audit (
    id integer PRIMARY KEY AUTOINCREMENT,
    at integer NOT NULL,
    by_whom text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    detail text NOT NULL
);
CREATE INDEX mainspring_audit_age ON mainspring_audit (at);

CREATE TABLE mainspring_counter (
    name text NOT NULL PRIMARY KEY,
    value integer NOT NULL
) WITHOUT ROWID;
INSERT INTO mainspring_counter (name, value) VALUES ('bell', 0), ('expired_parked', 0);

-- The high-water mark of the clock, in its one row.
CREATE TABLE mainspring_clock (at integer NOT NULL);
INSERT INTO mainspring_clock (at) VALUES (0);

CREATE TABLE mainspring_migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    breaking integer NOT NULL,
    applied_at integer NOT NULL
);
