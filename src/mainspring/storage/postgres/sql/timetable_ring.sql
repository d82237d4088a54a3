-- $1 channel. To everybody who listens, once this is committed: the next occurrence may be another.
SELECT mainspring.ring($1, '')
