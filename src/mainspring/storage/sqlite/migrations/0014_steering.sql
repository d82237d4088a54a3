-- What dead letters died of, told apart: empty for those that were buried before. buried_at stands in the index so that a
-- cause is counted and dated without looking at its rows.
ALTER TABLE mainspring_dead ADD COLUMN fingerprint text NOT NULL DEFAULT '';
CREATE INDEX mainspring_dead_cause ON mainspring_dead (group_name, fingerprint, seq, buried_at);

-- What a message has caused. Most messages are caused by none.
CREATE INDEX mainspring_message_causation ON mainspring_message (causation_id) WHERE causation_id IS NOT NULL;

-- A worker that is to finish what it has and claim no more, since when, and who wants that.
ALTER TABLE mainspring_worker ADD COLUMN draining_at integer;
ALTER TABLE mainspring_worker ADD COLUMN drained_by text;
