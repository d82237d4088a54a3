-- The groups of the deliveries that came after this seq.
SELECT DISTINCT group_name FROM mainspring_delivery WHERE seq > ?1
