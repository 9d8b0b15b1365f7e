"""Application commands: their schema as Discord checks it, the registry, and how a person may fill them in."""

from __future__ import annotations

import unicodedata
from typing import Any

from tests.fakes.discord.channels import as_id
from tests.fakes.discord.errors import Form, Json, Refused, refused
from tests.fakes.discord.faults import MODEL_TYPE, Call
from tests.fakes.discord.places import Guild
from tests.fakes.discord.service_state import DiscordState

SUBCOMMAND, GROUP, STRING, INTEGER, BOOLEAN, USER, CHANNEL, ROLE, MENTIONABLE, NUMBER, ATTACHMENT = range(
    1, 12
)
CHAT_INPUT = 1
MAX_COMMANDS = 100
MAX_SIZE = 8000


class Commands:
    """`writes`: how often the bot has changed them."""

    def __init__(self, state: DiscordState) -> None:
        self.state = state
        self.writes = 0
        self._global: dict[str, Json] = {}
        self._guilds: dict[int, dict[str, Json]] = {}

    def names(self, guild: Guild | None = None) -> list[str]:
        """The global commands, or one guild's own."""
        return sorted(self._shelf(None if guild is None else guild.id))

    def find(self, name: str, guild: Guild | None) -> Json | None:
        """A guild's own command goes before the global one."""
        own = {} if guild is None else self._shelf(guild.id)
        command = own.get(name) or self._global.get(name)
        return command if command is not None and _is_offered(command, guild) else None

    def list(self, call: Call) -> Any:
        return list(self._shelf_for(call).values())

    def get(self, call: Call) -> Json:
        return self._command(call)

    def overwrite(self, call: Call) -> Any:
        """PUT: exactly these commands remain. A known name keeps its id."""
        shelf, wanted = self._shelf_for(call), call.body
        if not isinstance(wanted, list):
            raise Refused(400, 50035, "Invalid Form Body", MODEL_TYPE)
        form = Form()
        form.check_length("", wanted, most=MAX_COMMANDS)
        seen: set[str] = set()
        for index, command in enumerate(wanted):
            check_command(form, str(index), command)
            if command.get("name") in seen:
                form.wrong(str(index), *DUPLICATE_NAME)
            seen.add(str(command.get("name")))
        form.raise_if_wrong()
        known = dict(shelf)
        shelf.clear()
        for command in wanted:
            self._store(shelf, command, known.get(command["name"]), call)
        return list(shelf.values())

    def create(self, call: Call) -> Json:
        """POST: the same name overwrites."""
        shelf = self._shelf_for(call)
        _check_alone(call.json)
        if call.json["name"] not in shelf and len(shelf) >= MAX_COMMANDS:
            raise Refused(400, 30032, "Maximum number of application commands reached (100)")
        return self._store(shelf, call.json, shelf.get(call.json["name"]), call)

    def edit(self, call: Call) -> Json:
        old = self._command(call)
        changed = {**old, **call.json}
        _check_alone(changed)
        shelf = self._shelf_for(call)
        del shelf[old["name"]]
        return self._store(shelf, changed, old, call)

    def delete(self, call: Call) -> None:
        del self._shelf_for(call)[self._command(call)["name"]]
        self.writes += 1

    def _shelf(self, guild: int | None) -> dict[str, Json]:
        return self._global if guild is None else self._guilds.setdefault(guild, {})

    def _shelf_for(self, call: Call) -> dict[str, Json]:
        if as_id("application_id", call.ids["application_id"]) != self.state.bot.id:
            raise Refused(403, 20012, "You are not authorized to perform this action on this application")
        guild = call.ids.get("guild_id")
        if guild is not None and int(guild) not in self.state.guilds:
            raise refused(50001)
        return self._shelf(None if guild is None else int(guild))

    def _command(self, call: Call) -> Json:
        for command in self._shelf_for(call).values():
            if command["id"] == call.ids["command_id"]:
                return command
        raise refused(10063)

    def _store(self, shelf: dict[str, Json], wanted: Json, old: Json | None, call: Call) -> Json:
        self.writes += 1
        permissions = wanted.get("default_member_permissions")
        command: Json = {
            "id": old["id"] if old else str(self.state.new_id()),
            "application_id": str(self.state.bot.id),
            "version": str(self.state.new_id()),
            "type": wanted.get("type", CHAT_INPUT),
            "name": wanted["name"],
            "description": wanted.get("description", ""),
            "default_member_permissions": None if permissions is None else str(permissions),
            "dm_permission": wanted.get("dm_permission", True),
            "nsfw": wanted.get("nsfw", False),
            "contexts": wanted.get("contexts"),
            "integration_types": wanted.get("integration_types") or [0],
            **_options_json(wanted),
        }
        if "guild_id" in call.ids:
            command["guild_id"] = call.ids["guild_id"]
        shelf[command["name"]] = command
        return command


DUPLICATE_NAME = ("APPLICATION_COMMANDS_DUPLICATE_NAME", "Application command names must be unique")


def _options_json(schema: Json) -> Json:
    """As Discord gives them back: what is false or empty is left out."""
    options = [
        {key: value for key, value in option.items() if value and key != "options"} | _options_json(option)
        for option in schema.get("options") or []
    ]
    return {"options": options} if options else {}


def _is_offered(command: Json, guild: Guild | None) -> bool:
    contexts = command["contexts"]
    if contexts is not None:
        return (0 if guild is not None else 1) in contexts
    return guild is not None or bool(command["dm_permission"])


def _check_alone(command: Json) -> None:
    form = Form()
    check_command(form, "", command)
    form.raise_if_wrong()


def check_command(form: Form, path: str, command: Json) -> None:
    if not form.check_choice(_under(path, "type"), command.get("type", CHAT_INPUT), (1, 2, 3)):
        return
    if command.get("type", CHAT_INPUT) != CHAT_INPUT:
        form.check_length(_under(path, "name"), command.get("name") or "", least=1, most=32)
        return
    _check_name(form, path, command.get("name"))
    form.check_length(_under(path, "description"), command.get("description") or "", least=1, most=100)
    _check_options(form, path, command.get("options") or [])
    if _size(command) > MAX_SIZE:
        message = f"Command exceeds maximum size ({MAX_SIZE})"
        form.wrong(path, "APPLICATION_COMMAND_TOO_LARGE", message)


def _under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _check_name(form: Form, path: str, name: Any) -> None:
    place = _under(path, "name")
    if not form.require(place, name):
        return
    form.check_length(place, name, least=1, most=32)
    if name != name.lower() or not all(_may_be_in_name(letter) for letter in name):
        form.wrong(place, "STRING_TYPE_REGEX", "String value did not match validation regex.")
        form.wrong(place, "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")


def _may_be_in_name(letter: str) -> bool:
    """Letters, digits, - _ ' and the signs of Devanagari and Thai."""
    is_sign = "\u0900" <= letter <= "\u097f" or "\u0e00" <= letter <= "\u0e7f"
    return letter in "-_'" or unicodedata.category(letter)[0] in "LN" or is_sign


def _check_options(form: Form, path: str, options: Any, *, depth: int = 0) -> None:
    if not isinstance(options, list) or not all(isinstance(option, dict) for option in options):
        form.wrong(
            _under(path, "options"), "MODEL_TYPE_CONVERT", "Only dictionaries may be used in a ModelType"
        )
        return
    form.check_length(_under(path, "options"), options, most=25)
    names: set[str] = set()
    optional_seen = False
    for index, option in enumerate(options):
        place = _under(path, f"options.{index}")
        _check_option(form, place, option, depth)
        if option.get("name") in names:
            form.wrong(place, "APPLICATION_COMMAND_OPTIONS_NAME_ALREADY_EXISTS", "Option name already exists")
        names.add(str(option.get("name")))
        if option.get("required") and optional_seen:
            message = "Required options must be placed before non-required options"
            form.wrong(place, "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID", message)
        optional_seen = optional_seen or not option.get("required")
    kinds = {option.get("type") in (SUBCOMMAND, GROUP) for option in options}
    if len(kinds) > 1:
        message = "Sub-command and sub-command group option types are mutually exclusive to all other types"
        form.wrong(_under(path, "options"), "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID", message)


def _check_option(form: Form, path: str, option: Json, depth: int) -> None:
    kind = option.get("type")
    if not form.check_choice(f"{path}.type", kind, tuple(range(SUBCOMMAND, ATTACHMENT + 1))):
        return
    _check_name(form, path, option.get("name"))
    form.check_length(f"{path}.description", option.get("description") or "", least=1, most=100)
    if kind in (SUBCOMMAND, GROUP):
        if depth > 1 or (kind == GROUP and depth):
            message = "Sub-commands and groups cannot be nested further"
            form.wrong(path, "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID", message)
        _check_options(form, path, option.get("options") or [], depth=depth + 1)
        return
    _check_choices(form, path, option, kind)


def _check_choices(form: Form, path: str, option: Json, kind: Any) -> None:
    choices = option.get("choices") or []
    form.check_length(f"{path}.choices", choices, most=25)
    if choices and option.get("autocomplete"):
        message = "Choices and autocomplete are mutually exclusive"
        form.wrong(path, "APPLICATION_COMMAND_OPTIONS_CHOICES_AUTOCOMPLETE", message)
    for index, choice in enumerate(choices):
        place = f"{path}.choices.{index}"
        form.check_length(f"{place}.name", choice.get("name") or "", least=1, most=100)
        if kind == STRING:
            form.check_length(f"{place}.value", str(choice.get("value") or ""), least=1, most=100)
        elif kind not in (INTEGER, NUMBER):
            form.wrong(place, "APPLICATION_COMMAND_OPTIONS_CHOICES_INVALID", "This type has no choices")


def _size(command: Json) -> int:
    own = len(command.get("name") or "") + len(command.get("description") or "")
    choices = command.get("choices") or []
    own += sum(len(str(c.get("name"))) + len(str(c.get("value"))) for c in choices)
    return own + sum(_size(option) for option in command.get("options") or [])
