-- ?1 name, ?2 epoch, ?3 holder, ?4 acquired_at, ?5 now, ?6 expires_at.
INSERT INTO mainspring_lease (name, epoch, holder, acquired_at, renewed_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (name) DO UPDATE SET
    epoch = excluded.epoch,
    holder = excluded.holder,
    acquired_at = excluded.acquired_at,
    renewed_at = excluded.renewed_at,
    expires_at = excluded.expires_at
