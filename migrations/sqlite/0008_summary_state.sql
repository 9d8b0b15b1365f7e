-- What travels with a summary as data: the engine's own state, and the block that the host put behind its text. NULL for
-- what was said, and for summaries of earlier versions, whose state stands in their text.
ALTER TABLE messages ADD COLUMN state TEXT CHECK (state IS NULL OR json_valid(state));
