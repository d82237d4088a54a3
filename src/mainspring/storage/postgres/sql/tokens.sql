-- How shared statements are written for PostgreSQL.

-- part: NOW(at)
coalesce({at}::timestamptz, statement_timestamp())

-- part: EACH(list, row)
unnest({list}) AS {row} (value)

-- part: BYTES(text)
convert_to({text}, 'UTF8')

-- part: LOCK_KEY()
FOR KEY SHARE

-- part: UNLOCKED(row)
FOR UPDATE OF {row} SKIP LOCKED

-- part: NEVER()
'9999-12-31 00:00:00+00'

-- part: MICROS(instant)
(extract(epoch FROM {instant}) * 1000000)::bigint

-- part: INDEXED(index)


-- part: LOOKUP(table, row, column, value)
CROSS JOIN LATERAL (SELECT * FROM mainspring.{table} WHERE {column} = {value} OFFSET 0) AS {row}

-- part: LOOKUP_IF_ANY(table, row, column, value)
LEFT JOIN LATERAL (SELECT * FROM mainspring.{table} WHERE {column} = {value} OFFSET 0) AS {row} ON true

-- part: PROGRESS()
LEFT JOIN LATERAL (
    SELECT said, at FROM mainspring.progress WHERE seq = d.seq AND epoch = d.epoch AND d.held_by IS NOT NULL OFFSET 0
) AS p ON true

-- part: GATHERED(value, hit)
coalesce(array_agg({value}) FILTER (WHERE {hit}), '{}')

-- part: NEWEST_FIRST(seqs)
(SELECT u.seq FROM unnest({seqs}::bigint[]) AS u (seq) ORDER BY u.seq DESC OFFSET 0)

-- part: CONTAINS(text, sought)
position(lower({sought}) IN lower({text})) > 0

-- part: PAYLOAD_CONTAINS(payload, sought)
position({sought} IN mainspring.searchable({payload})) > 0

-- part: LISTS(ids, id)
{id} = ANY ({ids})

-- part: LISTED(ids, place)
({ids})[({place})::integer]

-- part: HOLDER_NAME(holder)
left({holder}, -16)

-- part: NEWEST_OF_GROUP(row, id, group, index)
-- Bounds are written as rows, here and below, so that only the index in this order will do, also for a plan that was made
-- while the table was small.
    WHERE ({row}.group_name, {row}.{id}) < ({group}, $1) AND {row}.group_name >= {group}
    ORDER BY {row}.group_name DESC, {row}.{id} DESC

-- part: NEWEST_OF_CAUSE()
WHERE (d.group_name, d.fingerprint, d.seq) < ($3, $9, $1)
      AND (d.group_name, d.fingerprint) >= ($3, $9)
    ORDER BY d.group_name DESC, d.fingerprint DESC, d.seq DESC

-- part: NEWEST_OF_TOPIC()
WHERE (p.topic, p.seq) < ($3, $1) AND p.topic >= $3
    ORDER BY p.topic DESC, p.seq DESC
