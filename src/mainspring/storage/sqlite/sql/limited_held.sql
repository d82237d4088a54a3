SELECT key, count(*)
FROM mainspring_delivery INDEXED BY mainspring_delivery_held
WHERE held_by IS NOT NULL AND group_name = ?1
GROUP BY key
