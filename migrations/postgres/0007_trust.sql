-- Whether a fact was noted while text of others was in the conversation: it may come from them.
ALTER TABLE facts ADD COLUMN after_outside BIGINT NOT NULL DEFAULT 0 CHECK (after_outside IN (0, 1));

-- Cookies of the web chat that were signed out. `until` is when such a cookie would have expired.
CREATE TABLE sign_outs (
    digest TEXT NOT NULL PRIMARY KEY,
    until  DOUBLE PRECISION NOT NULL
);
