-- Which of its groups a worker has paused by itself, because too much of them failed.
ALTER TABLE mainspring_worker ADD COLUMN tripped TEXT NOT NULL DEFAULT '[]';
