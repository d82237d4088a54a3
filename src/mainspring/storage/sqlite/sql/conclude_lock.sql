-- ?1 seq, ?2 epoch. Changes nothing, and takes the write lock.
UPDATE mainspring_delivery SET epoch = epoch WHERE seq = ?1 AND epoch = ?2
