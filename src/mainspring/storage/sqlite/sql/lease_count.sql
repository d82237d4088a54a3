-- The epoch never goes back: it is the fence (invariant 16).
UPDATE mainspring_lease_epoch SET last = last + 1 RETURNING last
