-- Epochs of leases come from here, so that none goes back when its row has been removed and made again.
CREATE SEQUENCE mainspring.lease_epoch AS bigint CACHE 1;

-- One row per name that somebody holds, or has held lately. Nobody holds it without a holder, or after expires_at.
-- epoch is in a unique index because PostgreSQL takes the columns of those for keys: acquiring changes a key, so that no
-- transaction confirms (FOR KEY SHARE) what its snapshot still shows as its own; renewing and releasing change none.
CREATE TABLE mainspring.lease (
    name text COLLATE "C" PRIMARY KEY,
    epoch bigint NOT NULL,
    acquired_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    holder text COLLATE "C",
    UNIQUE (name, epoch)
);
CREATE INDEX lease_over ON mainspring.lease (expires_at, name);
-- Few rows, written again with every renewal.
ALTER TABLE mainspring.lease SET (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
