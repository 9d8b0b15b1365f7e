-- Conversations, their sessions, what was said in them, and how to find it again.
--
-- Order is always `seq`, never a timestamp: clocks step. `id` is the durable name that people and links use.

CREATE TABLE schema_migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at REAL NOT NULL
) STRICT;

-- A chat. Its id is stable for ever, and `live_session_id` is the one place that says where it is now.
CREATE TABLE conversations (
    seq             INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE,
    platform        TEXT NOT NULL,
    chat_id         TEXT NOT NULL,
    thread_id       TEXT NOT NULL DEFAULT '',
    user_id         TEXT NOT NULL DEFAULT '',
    person          TEXT NOT NULL,
    live_session_id TEXT NOT NULL,
    created_at      REAL NOT NULL,
    UNIQUE (platform, chat_id, thread_id, user_id),
    -- Deferred, because a conversation and its first session name each other. Both columns, so that the
    -- pointer can never lead into somebody else's conversation.
    FOREIGN KEY (id, live_session_id) REFERENCES sessions (conversation_id, id) DEFERRABLE INITIALLY DEFERRED
) STRICT;

CREATE INDEX conversations_person ON conversations (person);

-- A segment of a conversation between two splits.
CREATE TABLE sessions (
    seq             INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    parent_id       TEXT REFERENCES sessions (id),
    reason          TEXT CHECK (reason IN ('compression', 'hygiene', 'command', 'reset', 'branch')),
    engine          TEXT NOT NULL DEFAULT '',
    model           TEXT NOT NULL DEFAULT '',
    system_prompt   TEXT,
    prompt_tokens   INTEGER CHECK (prompt_tokens >= 0),
    created_at      REAL NOT NULL,
    UNIQUE (conversation_id, id),
    CHECK ((parent_id IS NULL) = (reason IS NULL))
) STRICT;

-- An index ends in the row's seq, so this one lists a conversation's sessions in order.
CREATE INDEX sessions_conversation ON sessions (conversation_id);

-- The provider's cache depends on these exact bytes.
CREATE TRIGGER sessions_prompt_is_pinned BEFORE UPDATE OF system_prompt ON sessions
WHEN OLD.system_prompt IS NOT NULL AND NEW.system_prompt IS NOT OLD.system_prompt
BEGIN
    SELECT RAISE(ABORT, 'a pinned system prompt is never changed');
END;

-- What was said, written once. Kinds other than `said` exist only in the context of a child session.
CREATE TABLE messages (
    seq          INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    session_id   TEXT NOT NULL REFERENCES sessions (id),
    role         TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool')),
    kind         TEXT NOT NULL CHECK (kind IN ('said', 'summary', 'pruned', 'note')),
    content      TEXT NOT NULL,
    parts        TEXT CHECK (parts IS NULL OR json_valid(parts)),
    tool_calls   TEXT CHECK (tool_calls IS NULL OR json_valid(tool_calls)),
    tool_call_id TEXT,
    name         TEXT,
    source_id    TEXT REFERENCES messages (id),
    created_at   REAL NOT NULL
) STRICT;

-- A session's own messages in order; the others are reached through session_context.
CREATE INDEX messages_said ON messages (session_id, seq) WHERE kind = 'said';

CREATE TRIGGER messages_are_not_updated BEFORE UPDATE ON messages
BEGIN
    SELECT RAISE(ABORT, 'a message is never changed');
END;

CREATE TRIGGER messages_are_not_deleted BEFORE DELETE ON messages
BEGIN
    SELECT RAISE(ABORT, 'a message is never deleted');
END;

-- What a child session starts with: references in order. Nothing is copied. Positions count up to -1, so that the
-- session's own messages, whose seq is positive, go on where they end: its history is one walk without a sort.
CREATE TABLE session_context (
    session_id  TEXT NOT NULL REFERENCES sessions (id),
    position    INTEGER NOT NULL CHECK (position < 0),
    message_seq INTEGER NOT NULL REFERENCES messages (seq),
    PRIMARY KEY (session_id, position)
) STRICT, WITHOUT ROWID;

-- What each compaction did, under the session it made.
CREATE TABLE compactions (
    seq             INTEGER PRIMARY KEY,
    session_id      TEXT NOT NULL UNIQUE REFERENCES sessions (id),
    trigger         TEXT NOT NULL,
    engine          TEXT NOT NULL,
    messages_before INTEGER NOT NULL,
    messages_after  INTEGER NOT NULL,
    tokens_before   INTEGER NOT NULL,
    tokens_after    INTEGER NOT NULL,
    focus           TEXT,
    seconds         REAL NOT NULL,
    cost_usd        REAL,
    outcome         TEXT NOT NULL,
    created_at      REAL NOT NULL
) STRICT;

-- One row per call of a model. `cost_usd` is NULL where the price is not known.
CREATE TABLE model_calls (
    seq                INTEGER PRIMARY KEY,
    session_id         TEXT NOT NULL REFERENCES sessions (id),
    purpose            TEXT NOT NULL,
    model              TEXT NOT NULL,
    prompt_tokens      INTEGER NOT NULL CHECK (prompt_tokens >= 0),
    completion_tokens  INTEGER NOT NULL CHECK (completion_tokens >= 0),
    cache_read_tokens  INTEGER NOT NULL CHECK (cache_read_tokens >= 0),
    cache_write_tokens INTEGER NOT NULL CHECK (cache_write_tokens >= 0),
    cost_usd           REAL,
    created_at         REAL NOT NULL
) STRICT;

CREATE INDEX model_calls_session ON model_calls (session_id, created_at);
CREATE INDEX model_calls_created ON model_calls (created_at);

-- Facts about a person that outlive a session.
CREATE TABLE facts (
    seq        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    person     TEXT NOT NULL,
    text       TEXT NOT NULL,
    created_at REAL NOT NULL
) STRICT;

CREATE INDEX facts_person ON facts (person);

-- Small named state that tools keep.
CREATE TABLE conversation_state (
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    key             TEXT NOT NULL,
    value           TEXT NOT NULL,
    PRIMARY KEY (conversation_id, key)
) STRICT, WITHOUT ROWID;

-- Full text of what was said, under the message's seq. It holds no copy of the text. `scope` carries a token for
-- the person and one for the conversation, so that a search in one of them never walks the others' messages.
CREATE VIRTUAL TABLE message_index USING fts5 (
    scope,
    said,
    tool,
    content = '',
    tokenize = 'porter unicode61 remove_diacritics 2'
);

-- Segments are merged in steps of our own, because an automatic merge can hold up the writer for as long as it likes.
INSERT INTO message_index (message_index, rank) VALUES ('automerge', 0);
INSERT INTO message_index (message_index, rank) VALUES ('crisismerge', 1000);

-- The index follows the messages at a distance; all up to `seq` are in it. Moves in the same transaction as the index.
CREATE TABLE index_progress (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    seq       INTEGER NOT NULL
) STRICT;

INSERT INTO index_progress (singleton, seq) VALUES (1, 0);
