-- What was said, each message once, and the summaries above it.
--
-- Order within a conversation is always `seq`, never a timestamp: clocks step. Times are for people.

CREATE TABLE conversations (
    key        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    person     TEXT NOT NULL DEFAULT '',
    created_at REAL NOT NULL
) STRICT;

CREATE INDEX conversations_person ON conversations (person);

-- `identity` is the host's durable id; without one it is made of what was said and how often it was said before.
CREATE TABLE messages (
    key          INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversations (key),
    seq          INTEGER NOT NULL CHECK (seq >= 1),
    identity     TEXT NOT NULL,
    role         TEXT NOT NULL,
    content      TEXT,
    rest         TEXT CHECK (rest IS NULL OR json_valid(rest)), -- what else the message has: calls, parts, names
    tokens       INTEGER NOT NULL CHECK (tokens >= 0),
    said_at      REAL NOT NULL,
    echo         INTEGER NOT NULL DEFAULT 0 CHECK (echo IN (0, 1)), -- a search of ours and what it found: no source
    UNIQUE (conversation, seq),
    UNIQUE (conversation, identity)
) STRICT;

CREATE TRIGGER messages_are_not_updated BEFORE UPDATE ON messages
BEGIN
    SELECT RAISE(ABORT, 'a message is never changed');
END;

CREATE TRIGGER messages_are_not_deleted BEFORE DELETE ON messages
BEGIN
    SELECT RAISE(ABORT, 'a message is never deleted');
END;

-- Words only: the text itself stands in `messages`. `scope` holds `c<conversation>`, so that a search in one
-- conversation never walks through the others.
CREATE VIRTUAL TABLE message_words USING fts5 (
    scope, body, content = '', tokenize = 'porter unicode61 remove_diacritics 2'
);

-- A node of the graph. Leaves (depth 0) stand over messages, the others over summaries.
CREATE TABLE summaries (
    key            INTEGER PRIMARY KEY,
    conversation   INTEGER NOT NULL REFERENCES conversations (key),
    depth          INTEGER NOT NULL CHECK (depth >= 0),
    level          TEXT NOT NULL CHECK (level IN ('detailed', 'bullets', 'stand_in')),
    content        TEXT NOT NULL,
    topics         TEXT NOT NULL DEFAULT '', -- what can be expanded, in a line
    tokens         INTEGER NOT NULL CHECK (tokens >= 0),
    source_tokens  INTEGER NOT NULL CHECK (source_tokens >= 0), -- of what it directly stands over
    message_tokens INTEGER NOT NULL CHECK (message_tokens >= 0), -- of all messages beneath it
    message_count  INTEGER NOT NULL CHECK (message_count >= 1),
    first_seq      INTEGER NOT NULL,
    last_seq       INTEGER NOT NULL,
    earliest       REAL NOT NULL,
    latest         REAL NOT NULL,
    sources_key    TEXT NOT NULL, -- the same sources are never summarised twice
    attempts       INTEGER NOT NULL DEFAULT 1,
    created_at     REAL NOT NULL,
    UNIQUE (conversation, sources_key),
    CHECK (first_seq <= last_seq)
) STRICT;

CREATE TABLE summary_messages (
    summary  INTEGER NOT NULL REFERENCES summaries (key),
    position INTEGER NOT NULL,
    message  INTEGER NOT NULL REFERENCES messages (key),
    PRIMARY KEY (summary, position),
    UNIQUE (message, summary)
) STRICT, WITHOUT ROWID;

CREATE TABLE summary_children (
    parent   INTEGER NOT NULL REFERENCES summaries (key),
    position INTEGER NOT NULL,
    child    INTEGER NOT NULL REFERENCES summaries (key),
    PRIMARY KEY (parent, position),
    UNIQUE (child, parent),
    CHECK (child < parent) -- so there is no way round in a circle
) STRICT, WITHOUT ROWID;

-- Texts that the engine itself put into a context, so that it knows them again and takes none for something said.
CREATE TABLE written (
    key          INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversations (key),
    fingerprint  TEXT NOT NULL,
    kind         TEXT NOT NULL CHECK (kind IN ('record', 'copy', 'hint')),
    message      INTEGER REFERENCES messages (key), -- of a copy: the whole one
    UNIQUE (conversation, fingerprint),
    CHECK ((kind = 'copy') = (message IS NOT NULL))
) STRICT;

-- The summaries that a record shows, in order.
CREATE TABLE written_summaries (
    written  INTEGER NOT NULL REFERENCES written (key),
    position INTEGER NOT NULL,
    summary  INTEGER NOT NULL REFERENCES summaries (key),
    PRIMARY KEY (written, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX written_summaries_summary ON written_summaries (summary);

-- What a session's context was when it was last seen.
CREATE TABLE sessions (
    key          INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversations (key),
    id           TEXT NOT NULL,
    seen_at      REAL NOT NULL,
    UNIQUE (conversation, id)
) STRICT;

CREATE TABLE context_items (
    session  INTEGER NOT NULL REFERENCES sessions (key),
    position INTEGER NOT NULL,
    message  INTEGER REFERENCES messages (key),
    summary  INTEGER REFERENCES summaries (key),
    PRIMARY KEY (session, position),
    CHECK ((message IS NULL) <> (summary IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX context_items_summary ON context_items (summary) WHERE summary IS NOT NULL;

CREATE TABLE compactions (
    key           INTEGER PRIMARY KEY,
    session       INTEGER NOT NULL REFERENCES sessions (key),
    tokens_before INTEGER NOT NULL,
    tokens_after  INTEGER NOT NULL,
    summaries     INTEGER NOT NULL, -- made or made anew in it
    outcome       TEXT NOT NULL,
    seconds       REAL NOT NULL,
    done_at       REAL NOT NULL
) STRICT;
