-- Which of its groups a worker has paused by itself, because too much of them failed.
ALTER TABLE mainspring.worker ADD COLUMN tripped text[] NOT NULL DEFAULT '{}';
