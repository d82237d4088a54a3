-- $1 name, $2 epoch, $3 holder, $4 now. Answers one row when it is held by this holder under this epoch.
-- Until the transaction ends nobody else can acquire it (invariant 16). The holder's own renewals go on: they change no
-- key, and a transaction of REPEATABLE READ that has begun before one of them does not fail for it.
SELECT epoch
FROM mainspring.lease
WHERE name = $1
  AND epoch = $2
  AND holder = $3
  AND expires_at > coalesce($4::timestamptz, statement_timestamp())
FOR KEY SHARE
