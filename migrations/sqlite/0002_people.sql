-- Who may talk to a bot in a direct chat because its owner said so, and who is asking to.
--
-- `platform` is the bot: `telegram`, or `telegram/work`. `user_id` is the service's number for the account in plain
-- digits; a name is only for people to read, because it can change hands.

CREATE TABLE people (
    platform    TEXT NOT NULL,
    user_id     TEXT NOT NULL,
    name        TEXT NOT NULL,
    approved_by TEXT NOT NULL,
    approved_at REAL NOT NULL,
    PRIMARY KEY (platform, user_id)
) STRICT, WITHOUT ROWID;

-- A code that somebody was given. What became of it is kept for a day, because codes are counted.
CREATE TABLE pairing_requests (
    seq        INTEGER PRIMARY KEY,
    platform   TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    name       TEXT NOT NULL,
    code_hash  TEXT NOT NULL UNIQUE,
    state      TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'replaced', 'approved', 'denied')),
    asked_at   REAL NOT NULL,
    expires_at REAL NOT NULL
) STRICT;

CREATE INDEX pairing_requests_person ON pairing_requests (platform, user_id);

-- A person has at most one code that could be approved.
CREATE UNIQUE INDEX pairing_requests_pending ON pairing_requests (platform, user_id) WHERE state = 'pending';

-- Wrong codes, so that nobody can go on guessing by starting another process.
CREATE TABLE pairing_failures (
    seq INTEGER PRIMARY KEY,
    at  REAL NOT NULL
) STRICT;
