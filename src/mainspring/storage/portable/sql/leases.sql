-- Leases.

-- part: LEASE_COLUMNS(at)
name,
    CASE WHEN holder IS NULL THEN 'free' WHEN expires_at > {at} THEN 'held' ELSE 'expired' END,
    holder, epoch, acquired_at, renewed_at, expires_at

-- name: lease_browse
-- $1 after which name: may be null; $2 limit, $3 now. Columns in the order of model.lease.LeaseView.
SELECT LEASE_COLUMNS(NOW($3)) FROM mainspring.lease WHERE name > coalesce($1::text, '') ORDER BY name LIMIT $2

-- name: lease_confirm
-- $1 name, $2 epoch, $3 holder, $4 now. Returns one row when it is held by this holder under this epoch.
-- Until the transaction ends no other can acquire it (invariant 16). The holder's own renewals go on: they change no
-- key, and a transaction of REPEATABLE READ that has begun before one of them does not fail for it.
SELECT epoch
FROM mainspring.lease
WHERE name = $1
  AND epoch = $2
  AND holder = $3
  AND expires_at > NOW($4)
LOCK_KEY()

-- name: lease_find
-- $1 name, $2 now. Columns in the order of model.lease.LeaseView.
SELECT LEASE_COLUMNS(NOW($2)) FROM mainspring.lease WHERE name = $1

-- name: lease_release
-- $1 name, $2 epoch, $3 holder, $4 now. Returns one row when it was held by this holder under this epoch.
UPDATE mainspring.lease
SET holder = NULL, expires_at = NOW($4)
WHERE name = $1 AND epoch = $2 AND holder = $3 AND expires_at > NOW($4)
RETURNING epoch
