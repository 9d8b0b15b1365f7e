-- The cost of model calls, added up as they are recorded. A day is the local date of the process that made the call.
CREATE TABLE spending (
    day                TEXT NOT NULL,
    spender            TEXT NOT NULL,
    model              TEXT NOT NULL,
    calls              BIGINT NOT NULL,
    prompt_tokens      BIGINT NOT NULL,
    completion_tokens  BIGINT NOT NULL,
    cache_read_tokens  BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    -- Of the calls with a price.
    cost_usd           DOUBLE PRECISION NOT NULL,
    unpriced_calls     BIGINT NOT NULL,
    PRIMARY KEY (day, spender, model)
);
