-- $1 seq, $2 epoch. Locks the delivery for as long as a handler's transaction lasts, where that reads from a snapshot: a
-- heartbeat that changed the row after the snapshot would make every later settle a serialization failure. The heartbeat
-- passes over what is locked, and so does whoever claims. Under READ COMMITTED there is nothing to lock, and a
-- process that froze is not waited for.
SELECT 1
FROM mainspring.delivery
WHERE seq = $1
  AND epoch = $2
  AND current_setting('transaction_isolation') <> 'read committed'
FOR UPDATE
