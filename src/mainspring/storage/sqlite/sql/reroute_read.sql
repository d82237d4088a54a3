SELECT seq FROM mainspring_parked WHERE topic = ?1 ORDER BY seq LIMIT ?2
