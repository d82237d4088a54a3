SELECT topic, key, payload, content_type, headers, correlation_id, causation_id, published_at, expires_at
FROM mainspring_message
WHERE id = ?1
