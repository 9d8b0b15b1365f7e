-- Notes: short texts that a context engine puts behind what a person said, for the model alone. From here on a session
-- has notes of its own, in order among what was said in it; no other kind is there but through session_context.
CREATE INDEX messages_noted ON messages (session_id, seq) WHERE kind = 'note';
