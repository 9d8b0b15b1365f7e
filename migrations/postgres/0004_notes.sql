-- Notes: short texts that a context engine puts behind a message of a person, for the model alone.
CREATE INDEX messages_noted ON messages (session_id, seq) WHERE kind = 'note';
