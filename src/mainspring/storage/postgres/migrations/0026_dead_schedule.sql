-- concurrently
-- The dead letters of a schedule in a group: those that a later one replaces.
CREATE INDEX CONCURRENTLY dead_schedule ON mainspring.dead (schedule, group_name) WHERE schedule IS NOT NULL;
