-- In SQLite this migration drops a trigger that PostgreSQL never had; the numbers of both folders stay equal.
SELECT 1;
