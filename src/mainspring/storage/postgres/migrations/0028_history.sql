-- Which group a batch was handled by, of which kind, and under which claims: null where its messages have ended in another way. So
-- what was handled is found without a row for each success.
ALTER TABLE mainspring.ended
    ADD COLUMN group_name text COLLATE "C",
    ADD COLUMN kind text COLLATE "C",
    ADD COLUMN held_by text COLLATE "C";
-- When a delivery was claimed: a claim that lapses leaves a run that began then.
ALTER TABLE mainspring.delivery ADD COLUMN claimed_at timestamptz;
