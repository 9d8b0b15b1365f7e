"""Files that people send: pictures for models that see, text of documents, voice written down."""
