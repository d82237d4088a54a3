-- $1 groups, $2 fingerprints. The place of each cause, and kind and error of the newest of its dead letters.
SELECT c.place - 1, latest.kind, latest.error
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS c (group_name, fingerprint, place)
CROSS JOIN LATERAL (
    SELECT d.kind, d.error
    FROM mainspring.dead AS d
    WHERE (d.group_name, d.fingerprint) >= (c.group_name, c.fingerprint)
      AND (d.group_name, d.fingerprint) <= (c.group_name, c.fingerprint)
    ORDER BY d.group_name DESC, d.fingerprint DESC, d.seq DESC
    LIMIT 1
) AS latest
