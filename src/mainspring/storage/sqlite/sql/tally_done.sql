SELECT group_name, sum(handled), sum(failed) FROM mainspring_tally GROUP BY group_name
