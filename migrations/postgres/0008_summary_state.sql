-- Data that travels with a summary: the engine's own state, and the block that the host put behind its text.
ALTER TABLE messages ADD COLUMN state TEXT CHECK (state IS NULL OR state::json IS NOT NULL);
