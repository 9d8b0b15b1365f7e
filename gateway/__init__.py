"""The gateway: platforms, commands, storage and models around the agent."""
