"""Web platform: the chat page, the HTTP API that `hermes chat` also uses, and the dashboard."""
