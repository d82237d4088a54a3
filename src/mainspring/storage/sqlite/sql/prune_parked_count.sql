UPDATE mainspring_counter SET value = value + ?1 WHERE name = 'expired_parked'
