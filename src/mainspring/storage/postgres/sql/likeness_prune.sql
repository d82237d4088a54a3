-- $1 limit, $2 after how long what is still needed is looked at again, $3 now. One row: how many were removed.
SELECT mainspring.likeness_prune($1::bigint, $2::interval, $3::timestamptz)
