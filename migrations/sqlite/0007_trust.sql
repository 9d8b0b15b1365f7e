-- Whether a fact was noted while text of others was in the conversation: it may come from them.
ALTER TABLE facts ADD COLUMN after_outside INTEGER NOT NULL DEFAULT 0 CHECK (after_outside IN (0, 1));

-- Cookies of the web chat that were signed out. `until` is when such a cookie would have ended by itself.
CREATE TABLE sign_outs (
    digest TEXT NOT NULL PRIMARY KEY,
    until  REAL NOT NULL
) STRICT, WITHOUT ROWID;
