DELETE FROM mainspring_dead WHERE seq IN (SELECT value FROM json_each(?1))
