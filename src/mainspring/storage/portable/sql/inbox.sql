-- The inbox.

-- part: INBOX_COLUMNS()
group_name, source, message_id, status, attempts, first_seen_at, changed_at, hash, error, mismatched_at

-- part: INBOX_MATCH()
($5::timestamptz IS NULL OR (
              changed_at <= $5 AND (
                  changed_at < $5 OR (message_id, source, group_name) > ($8::text, $9::text, $10::text)
              )
          ))
          AND ($1::text IS NULL OR group_name = $1)
          AND ($2::text IS NULL OR source = $2)

-- name: inbox_browse
-- $1 group, $2 source, $3 status, $4 for how long it must have been processing, $5 before: each may be null; $6 limit, $7
-- now; $8 message id, $9 source and $10 group: also those that changed at $5 itself after this key, unless null. Columns in the order of model.inbox.InboxView.
SELECT INBOX_COLUMNS()
FROM (
    SELECT *
    FROM (
        SELECT *
        FROM mainspring.inbox
        WHERE status = 'processing'
          AND ($3::text IS NULL OR $3 = 'processing')
          AND ($4::interval IS NULL OR changed_at < NOW($7) - $4)
          AND INBOX_MATCH()
        ORDER BY changed_at DESC, message_id, source, group_name
        LIMIT $6
    ) AS processing
    UNION ALL
    SELECT *
    FROM (
        SELECT *
        FROM mainspring.inbox
        WHERE status <> 'processing'
          AND ($3::text IS NULL OR status = $3)
          AND $4::interval IS NULL
          AND INBOX_MATCH()
        ORDER BY changed_at DESC, message_id, source, group_name
        LIMIT $6
    ) AS others
) AS i
ORDER BY changed_at DESC, message_id, source, group_name
LIMIT $6

-- name: inbox_find
-- $1 to $10 as in inbox_browse, $11 message id. The same of one id, by the key.
SELECT INBOX_COLUMNS()
FROM mainspring.inbox
WHERE message_id = $11
  AND ($3::text IS NULL OR status = $3)
  AND ($4::interval IS NULL OR (status = 'processing' AND changed_at < NOW($7) - $4))
  AND INBOX_MATCH()
ORDER BY changed_at DESC, source, group_name
LIMIT $6

-- name: inbox_mark
-- $1 group, $2 source, $3 message id, $4 attempt, $5 status, $6 error, $7 now, $8 when it was admitted, in microseconds, or
-- null. One row if that is how it stands now. Attempts only grow, and are the fence: a later admission is not overruled, nor
-- is one under the same number by a database that was restored. The same report again changes nothing.
UPDATE mainspring.inbox
SET status = $5, error = $6, changed_at = CASE WHEN status = $5 THEN changed_at ELSE NOW($7) END
WHERE message_id = $3
  AND source = $2
  AND group_name = $1
  AND attempts = $4
  AND (status = $5 OR (status = 'processing' AND coalesce(MICROS(changed_at) = $8::bigint, true)))
RETURNING attempts

-- name: inbox_receive
-- $1 group, $2 source, $3 16 characters of a hash and a message id each, $4 now. Marks those that are new as done, and returns
-- their ids. A row that is there is not locked: another session's lock on a known mark holds nothing up.
INSERT INTO mainspring.inbox (first_seen_at, changed_at, attempts, status, message_id, source, group_name, hash)
SELECT NOW($4), NOW($4), 1, 'done', substr(s.value, 17), $2, $1, BYTES(substr(s.value, 1, 16))
FROM EACH($3::text[], s)
WHERE true
ON CONFLICT (message_id, source, group_name) DO NOTHING
RETURNING message_id

-- name: inbox_receive_again
-- The same of those that failed or were released.
UPDATE mainspring.inbox
SET status = 'done', attempts = attempts + 1, changed_at = NOW($4), error = NULL
WHERE message_id IN (SELECT substr(s.value, 17) FROM EACH($3::text[], s))
  AND source = $2
  AND group_name = $1
  AND status = 'seen'
RETURNING message_id

-- name: inbox_receive_mismatched
-- Notes those that came with another hash than the first time, once, and returns their ids; one that another session has locked
-- is passed over.
UPDATE mainspring.inbox
SET mismatched_at = NOW($4)
WHERE message_id IN (
    SELECT i.message_id
    FROM EACH($3::text[], s)
    JOIN mainspring.inbox AS i ON i.message_id = substr(s.value, 17) AND i.source = $2 AND i.group_name = $1
    WHERE i.mismatched_at IS NULL AND i.hash <> BYTES(substr(s.value, 1, 16))
    UNLOCKED(i)
)
  AND source = $2
  AND group_name = $1
RETURNING message_id
