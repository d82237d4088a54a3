SELECT id, on_done, on_failed, done, failed
FROM mainspring_joint INDEXED BY mainspring_joint_complete
WHERE pending <= 0
ORDER BY id
LIMIT ?1
