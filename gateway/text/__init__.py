"""The text of a chat: long Markdown cut into messages, tables for phones, long code as files. Pure functions."""
