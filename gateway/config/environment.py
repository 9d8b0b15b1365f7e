"""Environment variables, and the `.env` file for variables that the environment does not have."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Iterable
from pathlib import Path

from gateway.errors import ConfigError, ConfigNotWritten

PROVIDER_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "NOUS_API_KEY")


def state_directory() -> Path:
    """Return `$HERMES_HOME`, or `~/.hermes`."""
    try:
        home = Path(os.environ.get("HERMES_HOME") or "~/.hermes").expanduser()
    except RuntimeError:  # no home directory is known for this user
        raise ConfigError("this user has no home directory; set HERMES_HOME.") from None
    if not home.is_absolute():
        # A relative path would mean another directory in every folder, with other people's settings and code.
        raise ConfigError(
            f"HERMES_HOME must be an absolute path; the state directory would be {str(home)!r}."
        )
    return home


def environment(home: Path) -> ChainMap[str, str]:
    """Return the variables of the process first, then those of `.env` in the state directory."""
    return ChainMap(dict(os.environ), _dotenv(home / ".env"))


def provider_keys() -> dict[str, str]:
    """Return the model providers' keys that are set, by variable."""
    known = environment(state_directory())
    return {name: known[name] for name in PROVIDER_KEYS if known.get(name)}


def save_secret(home: Path, name: str, value: str) -> Path:
    """Write the variable to `.env`, which only its owner can read. Return the path of the file."""
    from dotenv import set_key  # noqa: PLC0415 - only the setup writes

    path = home / ".env"
    try:
        path.touch(mode=0o600)
        path.chmod(0o600)
        set_key(path, name, value, follow_symlinks=True)
    except OSError as error:
        raise ConfigNotWritten(f"{path}: {error.strerror}.") from None
    return path


def _dotenv(path: Path) -> dict[str, str]:
    try:
        if not path.exists():
            return {}
        from dotenv import dotenv_values  # noqa: PLC0415 - most installations have no such file

        return {name: value for name, value in dotenv_values(path, interpolate=False).items() if value}
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {reason}.") from None


def relative_pythonpath() -> list[str]:
    """Return the entries of `PYTHONPATH` that mean the current directory or a folder in it."""
    entries = os.environ.get("PYTHONPATH", "")
    return [entry for entry in entries.split(os.pathsep) if not Path(entry).is_absolute()] if entries else []


def notify_socket() -> str:
    """Return the socket of the service manager that started this process; empty without a service manager."""
    return os.environ.get("NOTIFY_SOCKET", "")


def watchdog_seconds() -> float:
    """Return the watchdog interval of the service manager; 0 without a watchdog."""
    microseconds, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not microseconds.isdecimal() or pid not in ("", str(os.getpid())):
        return 0.0
    return int(microseconds) / 1_000_000


def user_unit_directory() -> Path:
    """Return the directory in which systemd looks for units of this user."""
    configuration = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(configuration) if configuration.startswith("/") else Path("~/.config").expanduser()
    return base / "systemd" / "user"


def missing_from_dotenv(home: Path, names: Iterable[str]) -> list[str]:
    """Return the variables that a service would not have: set in the environment, but not in `.env`."""
    kept = _dotenv(home / ".env")
    return [name for name in names if os.environ.get(name) and name not in kept]


def prepare_litellm_environment() -> None:
    """Set litellm's variables; must run before `import litellm`. Variables that are already set stay."""
    # Otherwise the import fetches a price table from the network; the package contains one.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # Otherwise the import searches the working directory and its parents for a `.env` file and loads it.
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
