-- Which start of a worker its latest beat was of, and which number that had: another start begins undrained, and a beat
-- that is sent again is counted once. Whether the worker has said that it drains.
ALTER TABLE mainspring_worker ADD COLUMN start_id text NOT NULL DEFAULT '';
ALTER TABLE mainspring_worker ADD COLUMN beats integer NOT NULL DEFAULT 0;
ALTER TABLE mainspring_worker ADD COLUMN drains integer NOT NULL DEFAULT 0;
