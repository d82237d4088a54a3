-- Epochs of leases are counted here, so that none goes back when its row has been removed and made again.
CREATE TABLE mainspring_lease_epoch (
    last integer NOT NULL
);
INSERT INTO mainspring_lease_epoch (last) VALUES (0);

-- One row per name that somebody holds, or has held lately. Nobody holds it without a holder, or after expires_at.
CREATE TABLE mainspring_lease (
    name text NOT NULL PRIMARY KEY,
    epoch integer NOT NULL,
    holder text,
    acquired_at integer NOT NULL,
    renewed_at integer NOT NULL,
    expires_at integer NOT NULL
) WITHOUT ROWID;
CREATE INDEX mainspring_lease_over ON mainspring_lease (expires_at, name);
