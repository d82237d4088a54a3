-- Why a worker is to drain.
ALTER TABLE mainspring.worker ADD COLUMN drain_reason text;
