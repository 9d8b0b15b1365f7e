-- What calls of models came to, added up as they are recorded, so that a look at a year costs as much as a year has days,
-- whatever the number of calls. A day is the one on the wall when the call was made.
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

INSERT INTO spending
SELECT date(created_at, 'unixepoch', 'localtime'), spender, model, count(*), sum(prompt_tokens), sum(completion_tokens),
    sum(cache_read_tokens), sum(cache_write_tokens), coalesce(sum(cost_usd), 0.0), count(*) - count(cost_usd)
FROM model_calls GROUP BY 1, 2, 3;

CREATE TRIGGER model_calls_are_added_up AFTER INSERT ON model_calls
BEGIN
    INSERT INTO spending
    VALUES (
        date(NEW.created_at, 'unixepoch', 'localtime'), NEW.spender, NEW.model, 1, NEW.prompt_tokens,
        NEW.completion_tokens, NEW.cache_read_tokens, NEW.cache_write_tokens, coalesce(NEW.cost_usd, 0.0),
        NEW.cost_usd IS NULL
    )
    ON CONFLICT (day, spender, model) DO UPDATE SET
        calls = calls + 1,
        prompt_tokens = prompt_tokens + excluded.prompt_tokens,
        completion_tokens = completion_tokens + excluded.completion_tokens,
        cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
        cost_usd = cost_usd + excluded.cost_usd,
        unpriced_calls = unpriced_calls + excluded.unpriced_calls;
END;
