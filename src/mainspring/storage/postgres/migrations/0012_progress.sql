-- What running handlers last said of themselves, beside their deliveries, which are written often enough without it.
-- A row counts while its delivery is held under the same epoch; afterwards it is pruned.
CREATE TABLE mainspring.progress (
    seq bigint PRIMARY KEY,
    at timestamptz NOT NULL,
    epoch integer NOT NULL,
    said text NOT NULL
);
-- Few rows, written again and again.
ALTER TABLE mainspring.progress SET (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
