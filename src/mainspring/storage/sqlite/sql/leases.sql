-- Leases.

-- name: lease_count
-- The epoch never goes back: it is the fence (invariant 16).
UPDATE mainspring_lease_epoch SET last = last + 1 RETURNING last

-- name: lease_held
-- ?1 name, ?2 now. Returns (epoch, holder, acquired_at) when it is held.
SELECT epoch, holder, acquired_at
FROM mainspring_lease
WHERE name = ?1 AND holder IS NOT NULL AND expires_at > ?2

-- name: lease_renew
-- ?1 name, ?2 epoch, ?3 holder, ?4 now, ?5 expires_at. Returns one row when it was held by this holder under this epoch.
UPDATE mainspring_lease
SET renewed_at = ?4, expires_at = ?5
WHERE name = ?1 AND epoch = ?2 AND holder = ?3 AND expires_at > ?4
RETURNING 1

-- name: lease_take
-- ?1 name, ?2 epoch, ?3 holder, ?4 acquired_at, ?5 now, ?6 expires_at.
INSERT INTO mainspring_lease (name, epoch, holder, acquired_at, renewed_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (name) DO UPDATE SET
    epoch = excluded.epoch,
    holder = excluded.holder,
    acquired_at = excluded.acquired_at,
    renewed_at = excluded.renewed_at,
    expires_at = excluded.expires_at
