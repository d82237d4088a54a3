DELETE FROM mainspring_inbox
WHERE rowid IN (
    SELECT rowid
    FROM mainspring_inbox
    WHERE status <> 'processing' AND changed_at < ?1
    ORDER BY changed_at
    LIMIT ?2
)
