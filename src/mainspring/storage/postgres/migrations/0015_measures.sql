-- What became of deliveries, how long they waited and ran, added up by workers as they beat: a row per group, per span of
-- so many seconds that began at a time, and per what was counted. What has no time is in bin 0. What is of all groups of
-- a namespace is under its prefix alone, which is no group's name.
CREATE TABLE mainspring.measure (
    at timestamptz NOT NULL,
    count bigint NOT NULL,
    span smallint NOT NULL,
    bin smallint NOT NULL,
    group_name text NOT NULL,
    what text NOT NULL,
    PRIMARY KEY (span, group_name, at, what, bin)
);
CREATE INDEX measure_at ON mainspring.measure (span, at);
-- The latest rows are written every second, by every worker; with room beside them that leaves the index alone.
ALTER TABLE mainspring.measure SET (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
