CREATE TABLE bots (
    platform TEXT PRIMARY KEY,
    since    REAL NOT NULL
) STRICT, WITHOUT ROWID;

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

CREATE TABLE conversation_state (
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    key             TEXT NOT NULL,
    value           TEXT NOT NULL,
    PRIMARY KEY (conversation_id, key)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE facts (
    seq        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    person     TEXT NOT NULL,
    text       TEXT NOT NULL,
    created_at REAL NOT NULL
, after_outside INTEGER NOT NULL DEFAULT 0 CHECK (after_outside IN (0, 1))) STRICT;

CREATE INDEX facts_person ON facts (person);

CREATE TABLE inbox (
    seq         INTEGER PRIMARY KEY,
    -- Of the message it becomes: made from the platform's own number, so that a message delivered again is known.
    id          TEXT NOT NULL UNIQUE,
    platform    TEXT NOT NULL,
    -- Where its reply is to be sent, as JSON: a chat, or a topic or thread in it. NULL where whoever wrote it comes
    -- and reads, as on the page.
    place       TEXT CHECK (place IS NULL OR json_valid(place)),
    -- The platform's own number of the message; empty where it gives none.
    number      TEXT NOT NULL DEFAULT '',
    -- As its platform handed it in, to be handed in again after a crash. Emptied when it is done.
    payload     TEXT NOT NULL CHECK (json_valid(payload)),
    state       TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'done', 'parked')),
    -- How often work on it began. A message that ends the process each time must not do so for ever.
    attempts    INTEGER NOT NULL DEFAULT 0,
    -- Why it was parked.
    reason      TEXT NOT NULL DEFAULT '',
    received_at REAL NOT NULL
) STRICT;

CREATE INDEX inbox_parked ON inbox (seq) WHERE state = 'parked';

CREATE INDEX inbox_place ON inbox (platform, place, seq);

CREATE INDEX inbox_waiting ON inbox (platform, place, seq) WHERE state = 'waiting';

CREATE TABLE index_progress (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    seq       INTEGER NOT NULL
) STRICT;

CREATE TABLE leases (
    conversation_id TEXT PRIMARY KEY,
    holder          TEXT NOT NULL,
    token           INTEGER NOT NULL,
    expires_at      REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE VIRTUAL TABLE message_index USING fts5 (
    scope,
    said,
    tool,
    content = '',
    tokenize = 'porter unicode61 remove_diacritics 2'
);

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
, state TEXT CHECK (state IS NULL OR json_valid(state))) STRICT;

CREATE INDEX messages_noted ON messages (session_id, seq) WHERE kind = 'note';

CREATE INDEX messages_said ON messages (session_id, seq) WHERE kind = 'said';

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
, spender TEXT NOT NULL DEFAULT '') STRICT;

CREATE INDEX model_calls_created ON model_calls (created_at);

CREATE INDEX model_calls_session ON model_calls (session_id, created_at);

CREATE INDEX model_calls_spender ON model_calls (spender, created_at);

CREATE TABLE model_windows (
    model      TEXT PRIMARY KEY,
    believed   INTEGER NOT NULL,
    tokens     INTEGER NOT NULL,
    -- 1: the provider named the number; 0: it is a guess from what was refused.
    named      INTEGER NOT NULL CHECK (named IN (0, 1)),
    learned_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox (
    seq             INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL,
    -- The inbox message that it answers, and that one's number on the platform.
    turn_id         TEXT NOT NULL,
    reply_to        TEXT NOT NULL DEFAULT '',
    platform        TEXT NOT NULL,
    place           TEXT NOT NULL CHECK (json_valid(place)),
    kind            TEXT NOT NULL CHECK (kind IN ('text', 'notice', 'file', 'fleeting')),
    -- NULL while the model is still writing it, and again once it has arrived.
    content         TEXT,
    state           TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sending', 'sent', 'parked')),
    -- The platform's numbers of the messages that show it, the newest last, as a JSON list.
    shown_in        TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(shown_in)),
    -- The newest of them is unfinished: it is still to be edited.
    growing         INTEGER NOT NULL DEFAULT 0 CHECK (growing IN (0, 1)),
    -- So many characters are dealt with in finished messages, but for this rest.
    dealt           INTEGER NOT NULL DEFAULT 0,
    rest            TEXT NOT NULL DEFAULT '',
    -- Why it was parked.
    reason          TEXT NOT NULL DEFAULT '',
    created_at      REAL NOT NULL
) STRICT;

CREATE INDEX outbox_open ON outbox (platform, seq) WHERE state IN ('pending', 'sending');

CREATE INDEX outbox_parked ON outbox (seq) WHERE state = 'parked';

CREATE TABLE pairing_failures (
    seq INTEGER PRIMARY KEY,
    at  REAL NOT NULL
) STRICT;

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

CREATE UNIQUE INDEX pairing_requests_pending ON pairing_requests (platform, user_id) WHERE state = 'pending';

CREATE INDEX pairing_requests_person ON pairing_requests (platform, user_id);

CREATE TABLE people (
    platform    TEXT NOT NULL,
    user_id     TEXT NOT NULL,
    name        TEXT NOT NULL,
    approved_by TEXT NOT NULL,
    approved_at REAL NOT NULL,
    PRIMARY KEY (platform, user_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE schema_migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at REAL NOT NULL
) STRICT;

CREATE TABLE session_context (
    session_id  TEXT NOT NULL REFERENCES sessions (id),
    position    INTEGER NOT NULL CHECK (position < 0),
    message_seq INTEGER NOT NULL REFERENCES messages (seq),
    PRIMARY KEY (session_id, position)
) STRICT, WITHOUT ROWID;

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

CREATE INDEX sessions_conversation ON sessions (conversation_id);

CREATE TABLE sign_outs (
    digest TEXT NOT NULL PRIMARY KEY,
    until  REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE spending (
    day                TEXT NOT NULL,
    spender            TEXT NOT NULL,
    model              TEXT NOT NULL,
    calls              INTEGER NOT NULL,
    prompt_tokens      INTEGER NOT NULL,
    completion_tokens  INTEGER NOT NULL,
    cache_read_tokens  INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    -- Of the calls with a price.
    cost_usd           REAL NOT NULL,
    unpriced_calls     INTEGER NOT NULL,
    PRIMARY KEY (day, spender, model)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER messages_are_not_deleted BEFORE DELETE ON messages
BEGIN
    SELECT RAISE(ABORT, 'a message is never deleted');
END;

CREATE TRIGGER messages_are_not_updated BEFORE UPDATE ON messages
BEGIN
    SELECT RAISE(ABORT, 'a message is never changed');
END;

CREATE TRIGGER sessions_prompt_is_pinned BEFORE UPDATE OF system_prompt ON sessions
WHEN OLD.system_prompt IS NOT NULL AND NEW.system_prompt IS NOT OLD.system_prompt
BEGIN
    SELECT RAISE(ABORT, 'a pinned system prompt is never changed');
END;

REPLACE INTO message_index_config VALUES ('automerge', 0);

REPLACE INTO message_index_config VALUES ('crisismerge', 1000);

REPLACE INTO message_index_config VALUES ('version', 4);

INSERT INTO index_progress VALUES (1, 0);

INSERT INTO schema_migrations VALUES (1, 'conversations', 0.0);

INSERT INTO schema_migrations VALUES (2, 'people', 0.0);

INSERT INTO schema_migrations VALUES (3, 'durability', 0.0);

INSERT INTO schema_migrations VALUES (4, 'notes', 0.0);

INSERT INTO schema_migrations VALUES (5, 'spending', 0.0);

INSERT INTO schema_migrations VALUES (6, 'model_windows', 0.0);

INSERT INTO schema_migrations VALUES (7, 'trust', 0.0);

INSERT INTO schema_migrations VALUES (8, 'summary_state', 0.0);

INSERT INTO schema_migrations VALUES (9, 'spending_by_code', 0.0);
