-- One row per shard of a fan-out: the window that was last completed, and the one that was last planned, with the id of
-- its slice. Neither ever goes back. seen_at says when the shard was last known to be there: by it a row is pruned.
CREATE TABLE mainspring_fanout_cursor (
    topic text NOT NULL,
    work text NOT NULL,
    shard text NOT NULL,
    completed integer,
    completed_at integer,
    planned integer,
    planned_at integer,
    seen_at integer NOT NULL,
    slice_id blob,
    PRIMARY KEY (topic, work, shard)
) WITHOUT ROWID;
CREATE INDEX mainspring_fanout_cursor_over ON mainspring_fanout_cursor (seen_at);

-- What was set at run time for the shards of a work: for one of them, or for all, where the shard is empty. Times are
-- in microseconds.
CREATE TABLE mainspring_fanout_policy (
    topic text NOT NULL,
    work text NOT NULL,
    shard text NOT NULL,
    enabled integer,
    every integer,
    jitter integer,
    edited_at integer NOT NULL,
    edited_by text NOT NULL,
    PRIMARY KEY (topic, work, shard)
) WITHOUT ROWID;
