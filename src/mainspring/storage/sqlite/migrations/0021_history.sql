-- Which group a batch was handled by, of which kind, and under which claims: null where its messages have ended in another way. So
-- what was handled is found without a row for each success.
ALTER TABLE mainspring_ended ADD COLUMN group_name text;
ALTER TABLE mainspring_ended ADD COLUMN kind text;
ALTER TABLE mainspring_ended ADD COLUMN held_by text;
-- When a delivery was claimed: a claim that lapses leaves a run that began then.
ALTER TABLE mainspring_delivery ADD COLUMN claimed_at integer;
