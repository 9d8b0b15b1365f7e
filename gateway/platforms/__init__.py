"""Where people talk to Hermes: one file or folder per platform."""
