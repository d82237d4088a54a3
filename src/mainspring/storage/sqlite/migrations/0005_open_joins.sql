-- By this open joins are shown and recounted: the members that have not ended. Plain messages have no entry.
CREATE INDEX mainspring_delivery_join ON mainspring_delivery (join_id, seq) WHERE join_id IS NOT NULL;
