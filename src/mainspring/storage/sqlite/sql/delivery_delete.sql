DELETE FROM mainspring_delivery WHERE seq IN (SELECT value FROM json_each(?1))
