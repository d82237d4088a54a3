-- $1 places, $2 ids, $3 topics, $4 SHA-256 of the payloads: the drafts whose ids are known. Answers the places of those
-- that are known as other messages, and the topics of these.
SELECT draft.place, known.topic
FROM unnest($1::integer[], $2::uuid[], $3::text[], $4::bytea[]) AS draft (place, id, topic, digest)
INNER JOIN mainspring.message AS known ON known.id = draft.id
WHERE known.topic <> draft.topic OR sha256(known.payload) <> draft.digest
