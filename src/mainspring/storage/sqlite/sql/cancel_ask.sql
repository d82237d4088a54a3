UPDATE mainspring_delivery SET cancel_asked = 1 WHERE seq IN (SELECT value FROM json_each(?1))
