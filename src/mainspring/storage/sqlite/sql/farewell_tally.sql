DELETE FROM mainspring_tally WHERE worker = ?1
