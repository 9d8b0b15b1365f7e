"""Configuration: `schema` says what can be set, `load` reads it. Nothing else reads the environment."""
