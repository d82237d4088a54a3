-- In the order of the indexes: to sort by seq would be to read all of a group for every few of it.
SELECT seq, message_id, join_id FROM mainspring_delivery WHERE held_by IS NULL AND group_name = ?1
UNION ALL
SELECT seq, message_id, join_id FROM mainspring_delivery WHERE held_by IS NOT NULL AND group_name = ?1
LIMIT ?2
