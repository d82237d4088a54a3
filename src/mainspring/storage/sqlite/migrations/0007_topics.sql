-- By these what is over is found topic by topic, where topics are kept for different times: from one topic to the next,
-- and of each from its oldest on.
CREATE INDEX mainspring_run_topic ON mainspring_run (topic, status, finished_at);
CREATE INDEX mainspring_dead_topic ON mainspring_dead (topic, buried_at);
CREATE INDEX mainspring_parked_topic_age ON mainspring_parked (topic, parked_at);
