"""Finds and reads the configuration, and reports all of its problems at once.

Searched in this order: `--config`, `$HERMES_CONFIG`, `$HERMES_HOME/hermes.yaml`, and last the `hermes.yaml` that comes
with Hermes. A `hermes.yaml` in the current directory is not read unless it is one of these: a folder from another
person could otherwise send the owner's keys to any server and switch off the sandbox.
"""

from __future__ import annotations

import os
import re
from collections import ChainMap
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gateway.config.environment import environment, state_directory
from gateway.config.schema import Config, PlatformSections, config_with
from gateway.config.schema_platforms import PlatformsConfig, is_platform_name, token_variables
from gateway.config.validate import dotted, problem_lines, validate
from gateway.config.yaml_document import Document, parse
from gateway.errors import ConfigError, StateDirectoryUnusable

SHIPPED = Path(__file__).parents[2] / "hermes.yaml"
"""The documented defaults, beside the package in a clone and in an installed wheel."""

_MAX_BYTES = 1_000_000
_LINE = "line "


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration and its origin."""

    config: Config
    path: Path | None
    """The user's file; None while only the shipped defaults are in use."""
    home: Path
    origins: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Where each key is set: `line 3` or `$VARIABLE`. Keys that are missing here have their defaults."""
    ignored: Path | None = None
    """A `hermes.yaml` in the current directory that is not used, because the owner has not named it."""
    sections: PlatformSections = field(default_factory=dict, repr=False)
    """The configuration models of platforms that plugins add."""

    @property
    def source(self) -> str:
        """The file in use, for messages."""
        return str(self.path or f"the defaults in {SHIPPED}")

    @property
    def database(self) -> Path:
        """The store's file: `storage.path`, or `state.db` in the state directory."""
        return self.home / (self.config.storage.path or "state.db")

    @property
    def database_url(self) -> str:
        """The URL of the PostgreSQL database that holds the store; empty if a file does."""
        url = self.config.storage.url
        return url.get_secret_value() if url else ""

    @property
    def store_name(self) -> str:
        """The database for people: its file, or its URL without password and options."""
        if not self.database_url:
            return str(self.database)
        return re.sub(r"(?<=//)([^/@]*?)(:[^/@]*)?@", r"\1@", self.database_url.partition("?")[0])

    def has_store(self) -> bool:
        """Tell whether the database exists; a PostgreSQL database always does."""
        return bool(self.database_url) or self.database.exists()

    @property
    def workspaces(self) -> Path:
        """The agents' working folders, one per conversation."""
        return self.home / "workspaces"

    def with_platforms(self, sections: PlatformSections) -> LoadedConfig:
        """Read the file again, now that the platforms of plugins are known. Raises ConfigError."""
        return replace(load(self.path, sections=sections, strict=True), ignored=self.ignored)

    def position_of(self, key: str) -> str:
        """Return the position of a key for an error message: `hermes.yaml:12`, or the file if the key is not in it."""
        source = self.path or SHIPPED
        while key and not self.origins.get(key, "").startswith(_LINE):
            key = key.rpartition(".")[0]
        return f"{source}:{self.origins[key].removeprefix(_LINE)}" if key else str(source)


def load(
    explicit: Path | None = None,
    *,
    assumed: Mapping[str, str] | None = None,
    sections: PlatformSections | None = None,
    strict: bool = False,
) -> LoadedConfig:
    """Raises ConfigError with all problems of the file. `assumed` are values for variables that are not set.

    `sections` are the models of platforms that plugins add. Unless `strict`, a file that enables plugins may hold more
    sections under `platforms`, which stay unchecked: only the plugins know them.
    """
    sections = sections or {}
    home = state_directory()
    path = find_config(explicit, home)
    source = path or SHIPPED
    known = ChainMap(environment(home), dict(assumed or {}))
    document = parse(read_text(source), known)
    unchecked = () if strict else _unknown_platforms(document.tree, sections)
    config_type = config_with(sections, unchecked=unchecked)
    _fill_in_tokens(document, known, sections)
    config = validate(document, config_type)
    if config is None:
        raise ConfigError(problems=problem_lines(document, str(source)))
    origins = _origins(document, path)
    ignored = ignored_file(explicit, path)
    return LoadedConfig(config, path and path.absolute(), home, origins, ignored, sections)


def load_lenient(explicit: Path | None = None) -> tuple[LoadedConfig, ConfigError | None]:
    """Load the configuration for a command that only reads the store or the log. Of an invalid file, use the sections
    `storage` and `platforms.web` if they are valid. Return the problems, too."""
    try:
        return load(explicit), None
    except ConfigError as error:
        refused = error
    home = state_directory()
    path = find_config(explicit, home)
    sound: dict[str, Any] = {}
    with suppress(ConfigError):
        tree = parse(read_text(path or SHIPPED), environment(home)).tree
        for names in (("storage",), ("platforms", "web")):
            sound |= _if_valid(tree, *names)
    config, ignored = Config.model_validate(sound), ignored_file(explicit, path)
    return LoadedConfig(config, path and path.absolute(), home, ignored=ignored), refused


def _if_valid(tree: Any, *names: str) -> dict[str, Any]:
    for name in names:
        tree = tree.get(name) if isinstance(tree, dict) else None
    for name in reversed(names):
        tree = {name: tree}
    try:
        Config.model_validate(tree)
    except ValidationError:
        return {}
    return dict(tree)


def find_config(explicit: Path | None, home: Path) -> Path | None:
    """Return the file to read; None if only the shipped file exists."""
    return _named(explicit) or _own(home) or (SHIPPED if _is_started_in(SHIPPED.parent) else None)


def config_to_edit(explicit: Path | None, home: Path) -> Path:
    """Return the file to write settings to, which may not exist yet; the shipped file only if the user names it."""
    return _named(explicit) or _own(home) or home / "hermes.yaml"


def existing_config(path: Path) -> Path:
    """Return the file, or the shipped one if it does not exist yet."""
    return path if path.exists() else SHIPPED


def _named(explicit: Path | None) -> Path | None:
    if explicit is not None:
        return explicit
    if named := os.environ.get("HERMES_CONFIG"):
        if not Path(named).is_absolute():
            # A relative path would mean another file in every folder.
            raise ConfigError(f"HERMES_CONFIG must be an absolute path; it is {named!r}.")
        return Path(named)
    return None


def _own(home: Path) -> Path | None:
    own = home / "hermes.yaml"
    try:
        return own if own.exists() else None
    except PermissionError as error:
        raise StateDirectoryUnusable(f"({error.filename}: {error.strerror})") from None


def ignored_file(explicit: Path | None, used: Path | None) -> Path | None:
    """Return the `hermes.yaml` in the current directory, if it is not `used` and the user has named no other file."""
    if explicit is not None or os.environ.get("HERMES_CONFIG") or (used and _is_started_in(used.parent)):
        return None
    if _is_started_in(SHIPPED.parent) and _has_only_defaults(SHIPPED):
        return None  # the file of a clone, unchanged
    with suppress(OSError):
        here = Path("hermes.yaml").absolute()
        if os.path.lexists(here):
            return here
    return None


def _has_only_defaults(path: Path) -> bool:
    try:
        return validate(parse(read_text(path), {})) == Config()
    except ConfigError:
        return False


def _is_started_in(folder: Path) -> bool:
    """Tell whether the current directory is this folder, by inode and not by name."""
    try:
        return Path.cwd().samefile(folder)
    except OSError:
        return False


def ensure_home(home: Path) -> None:
    """Create the state directory, private to this user, and check that it can be read and written."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StateDirectoryUnusable(f"({home}: {error.strerror})") from None
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        raise StateDirectoryUnusable(f"({home}: Permission denied)")


def read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        why = " (HERMES_CONFIG names it)" if str(path) == os.environ.get("HERMES_CONFIG") else ""
        raise ConfigError(f"{path}: cannot be read: {error.strerror}{why}.") from None
    if len(content) > _MAX_BYTES:
        raise ConfigError(f"{path}: is larger than {_MAX_BYTES} bytes. Is it the right file?")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8 text.") from None


def _unknown_platforms(tree: Any, sections: PlatformSections) -> list[str]:
    """List the sections under `platforms` that only the plugins named in the file can know."""
    if not isinstance(tree, dict) or not isinstance(tree.get("platforms"), dict):
        return []
    plugins = tree.get("plugins")
    if not isinstance(plugins, dict) or not plugins.get("enabled"):
        return []
    known = {*PlatformsConfig.model_fields, *sections}
    return [
        name
        for name, section in tree["platforms"].items()
        if name not in known and is_platform_name(name) and isinstance(section, dict)
    ]


def _fill_in_tokens(document: Document, known: Mapping[str, str], sections: PlatformSections) -> None:
    """Set the token of each platform from its usual variable, unless the file sets it."""
    for platform, variable in token_variables(sections).items():
        settings = _section(_section(document.tree, "platforms"), platform)
        if known.get(variable) and settings is not None and "token" not in settings:
            settings["token"] = known[variable]
            document.variables["platforms", platform, "token"] = [variable]


def _section(tree: Any, name: str) -> dict[str, Any] | None:
    """Return the mapping of that name, created if missing or empty; None if the value is not a mapping."""
    if not isinstance(tree, dict):
        return None
    if tree.get(name) is None:
        tree[name] = {}
    return tree[name] if isinstance(tree[name], dict) else None


def _origins(document: Document, path: Path | None) -> dict[str, str]:
    """Return the origin of each key. Lines of the shipped file count as defaults."""
    lines = {dotted(place): f"{_LINE}{line}" for place, line in document.lines.items() if path}
    variables = {
        dotted(place): " ".join(f"${name}" for name in names) for place, names in document.variables.items()
    }
    return lines | variables
