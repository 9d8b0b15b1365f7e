-- What is an echo follows from the calls before a message, so it may be corrected. What was said may not.
-- `echoes.correct` runs with this step: it reveals the results of other tools that were taken for echoes.
DROP TRIGGER IF EXISTS messages_are_not_updated;

CREATE TRIGGER messages_are_not_updated
BEFORE UPDATE OF key, conversation, seq, identity, role, content, rest, tokens, said_at ON messages
BEGIN
    SELECT RAISE(ABORT, 'a message is never changed');
END;
