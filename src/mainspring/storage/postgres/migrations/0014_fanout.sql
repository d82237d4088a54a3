-- One row per shard of a fan-out: the window that was last completed, and the one that was last planned, with the id of
-- its slice. Neither ever goes back. seen_at says when the shard was last known to be there: by it a row is pruned.
CREATE TABLE mainspring.fanout_cursor (
    topic text COLLATE "C" NOT NULL,
    work text COLLATE "C" NOT NULL,
    shard text COLLATE "C" NOT NULL,
    completed timestamptz,
    completed_at timestamptz,
    planned timestamptz,
    planned_at timestamptz,
    seen_at timestamptz NOT NULL,
    slice_id uuid,
    PRIMARY KEY (topic, work, shard)
);
CREATE INDEX fanout_cursor_over ON mainspring.fanout_cursor (seen_at);
-- Every row is written twice in every window.
ALTER TABLE mainspring.fanout_cursor SET (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- What was set at run time for the shards of a work: for one of them, or for all, where the shard is empty.
CREATE TABLE mainspring.fanout_policy (
    topic text COLLATE "C" NOT NULL,
    work text COLLATE "C" NOT NULL,
    shard text COLLATE "C" NOT NULL,
    enabled boolean,
    every interval,
    jitter interval,
    edited_at timestamptz NOT NULL,
    edited_by text NOT NULL,
    PRIMARY KEY (topic, work, shard)
);
