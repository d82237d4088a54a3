DELETE FROM mainspring_parked WHERE seq IN (SELECT value FROM json_each(?1))
