"""Text for chats: splits long Markdown into messages, renders tables for phones, finds long code. Pure functions."""
