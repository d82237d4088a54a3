-- By these open joins are shown and recounted: the members that have not ended, and the ends that are not counted yet.
-- Plain messages have no entry in the first.
CREATE INDEX delivery_join ON mainspring.delivery (join_id, seq) WHERE join_id IS NOT NULL;
CREATE INDEX joint_end_join ON mainspring.joint_end (join_id);
