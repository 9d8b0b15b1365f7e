"""What litellm reads from the environment while it is imported."""

from __future__ import annotations

import os


def prepare_litellm_environment() -> None:
    """Must run before `import litellm`. A person's own settings are left as they are."""
    # Otherwise the import fetches a price table and waits for the network; the package holds one of its own.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # Otherwise the import looks for a `.env` file upwards from the working directory and loads it.
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
