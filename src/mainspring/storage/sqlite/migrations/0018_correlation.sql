-- The messages of one operation. Those without a correlation id, which are most, have no entry.
CREATE INDEX mainspring_message_correlation ON mainspring_message (correlation_id) WHERE correlation_id IS NOT NULL;

-- Why a worker is to drain.
ALTER TABLE mainspring_worker ADD COLUMN drain_reason text;
