"""Web chat: a page without a build step, the HTTP API that the terminal also uses, and the dashboard."""
