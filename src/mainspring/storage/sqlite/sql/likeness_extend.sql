UPDATE mainspring_likeness SET until = published_at + ?2 WHERE hash = ?1 AND until < published_at + ?2
