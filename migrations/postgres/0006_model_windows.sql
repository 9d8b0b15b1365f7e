-- Windows of models that turned out to be smaller than believed, in tokens. A row counts only while the believed window
-- is the same as when it was written: a new value of `context_length` replaces it.
CREATE TABLE model_windows (
    model      TEXT PRIMARY KEY,
    believed   BIGINT NOT NULL,
    tokens     BIGINT NOT NULL,
    -- 1: the provider named the number; 0: it is a guess from what was refused.
    named      BIGINT NOT NULL CHECK (named IN (0, 1)),
    learned_at DOUBLE PRECISION NOT NULL
);
