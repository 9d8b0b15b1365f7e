"""The agent: a conversation loop, its tools and its ports. Knows no platform and no SQL."""
