-- What messages mean, as a small model sees it: one signed byte for each number, message after message.
--
-- Block n holds the messages 256 n + 1 to 256 n + 256 of a conversation, as far as there are any; messages count up without
-- a gap, so the place in the block tells which one it is. It is all made of `messages` and can be made again at any time.
CREATE TABLE meanings (
    conversation INTEGER NOT NULL REFERENCES conversations (key),
    block        INTEGER NOT NULL CHECK (block >= 0),
    model        TEXT NOT NULL,
    messages     INTEGER NOT NULL CHECK (messages BETWEEN 1 AND 256),
    vectors      BLOB NOT NULL CHECK (length(vectors) % messages = 0),
    PRIMARY KEY (conversation, block)
) STRICT;
