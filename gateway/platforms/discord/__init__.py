"""Discord, on discord.py. Importing this package does not import the SDK."""
