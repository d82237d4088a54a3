-- By these what is over is found topic by topic, where topics are kept for different times: from one topic to the next,
-- and of each from its oldest on.
CREATE INDEX run_topic ON mainspring.run (topic, status, finished_at);
CREATE INDEX dead_topic ON mainspring.dead (topic, buried_at);
CREATE INDEX parked_topic_age ON mainspring.parked (topic, parked_at);
