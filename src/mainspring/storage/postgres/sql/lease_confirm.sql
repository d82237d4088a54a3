-- $1 name, $2 epoch, $3 now. Answers one row when it is held under this epoch.
-- Until the transaction ends nobody else can acquire it (invariant 16). The holder's own renewals go on: they change no
-- key, and a transaction of REPEATABLE READ that has begun before one of them does not fail for it.
SELECT epoch
FROM mainspring.lease
WHERE name = $1 AND epoch = $2 AND holder IS NOT NULL AND expires_at > coalesce($3::timestamptz, statement_timestamp())
FOR KEY SHARE
