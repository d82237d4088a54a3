-- concurrently
-- The messages of one operation. Those without a correlation id, which are most, have no entry.
CREATE INDEX CONCURRENTLY message_correlation ON mainspring.message (correlation_id) WHERE correlation_id IS NOT NULL;
