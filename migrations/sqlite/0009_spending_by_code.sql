-- From here on `record_usage` adds up what calls came to, in the transaction that stores the call. The day on the wall is
-- a matter of the process that made the call, and another database cannot know it.
DROP TRIGGER model_calls_are_added_up;
