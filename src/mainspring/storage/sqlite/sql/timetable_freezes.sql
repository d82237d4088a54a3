SELECT app, at, by_whom, reason FROM mainspring_freeze ORDER BY app
