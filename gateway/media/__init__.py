"""Files that people send: images for models that see, text of documents, transcripts of voice messages."""
