-- The messages of all that may still run, or be revived.
SELECT message_id FROM mainspring_delivery
UNION
SELECT message_id FROM mainspring_parked
UNION
SELECT message_id FROM mainspring_dead
