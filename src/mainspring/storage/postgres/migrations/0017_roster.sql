-- Which start of a worker its latest beat was of, and which number that had: another start begins undrained, and a beat
-- that is sent again is counted once. Whether the worker has said that it drains.
ALTER TABLE mainspring.worker
    ADD COLUMN start_id text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN beats bigint NOT NULL DEFAULT 0,
    ADD COLUMN drains boolean NOT NULL DEFAULT false;

-- The counts of spans that are not over, each worker's in one of a few slots, so that those who beat at once do not wait
-- for each other. They are moved to measure when the span is over.
CREATE TABLE mainspring.measure_slot (
    at timestamptz NOT NULL,
    count bigint NOT NULL,
    span smallint NOT NULL,
    bin smallint NOT NULL,
    slot smallint NOT NULL,
    group_name text NOT NULL,
    what text NOT NULL,
    PRIMARY KEY (span, group_name, at, slot, what, bin)
);
CREATE INDEX measure_slot_at ON mainspring.measure_slot (span, at);
-- Every row is written every second for as long as its span lasts, and then removed.
ALTER TABLE mainspring.measure_slot SET (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
