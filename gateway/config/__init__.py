"""Configuration: `schema` defines the settings, `loader` reads them. No other package reads the environment."""
