-- What makes Hermes keep its word over a crash: messages that wait, replies on their way, and who works on a conversation.

-- A message is here before its platform hears that it has arrived, and done once its reply is complete in the outbox.
-- Order is `seq`, as everywhere: the order in which messages were taken, whatever the clock said.
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

CREATE INDEX inbox_waiting ON inbox (platform, place, seq) WHERE state = 'waiting';
CREATE INDEX inbox_place ON inbox (platform, place, seq);
CREATE INDEX inbox_parked ON inbox (seq) WHERE state = 'parked';

-- Since when a bot listens. What was written before was not written to it.
CREATE TABLE bots (
    platform TEXT PRIMARY KEY,
    since    REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- Something that must arrive in a chat: a text of the model's, a notice, a file; or a passing remark that must not
-- stay there. A model's text has the id of the message that is stored.
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

-- Who works on a conversation. The token grows with every change of hands; a write that carries an old one is refused,
-- so that whoever was given up for dead cannot come back and write.
CREATE TABLE leases (
    conversation_id TEXT PRIMARY KEY,
    holder          TEXT NOT NULL,
    token           INTEGER NOT NULL,
    expires_at      REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- Whose budget a call counts against: the author of the message that led to it.
ALTER TABLE model_calls ADD COLUMN spender TEXT NOT NULL DEFAULT '';
CREATE INDEX model_calls_spender ON model_calls (spender, created_at);
