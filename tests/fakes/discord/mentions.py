"""Users that a message pings: mentions in its text, narrowed by `allowed_mentions` and permissions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.fakes.discord.errors import Form, Json

if TYPE_CHECKING:
    from tests.fakes.discord.places import Channel, User

KINDS = ("users", "roles", "everyone")
EVERYTHING: Json = {"parse": list(KINDS), "replied_user": True}
"""Default for an ordinary message without `allowed_mentions`."""
ONLY_USERS: Json = {"parse": ["users"]}
"""Default for interaction responses and webhooks."""
NOBODY: Json = {"parse": []}

_CODE = re.compile(r"```.*?```|``.*?``|`[^`\n]+`", re.DOTALL)
_USER = re.compile(r"<@!?(\d+)>")
_ROLE = re.compile(r"<@&(\d+)>")
_EVERYONE = re.compile(r"@(everyone|here)\b")


@dataclass(frozen=True, slots=True)
class Pings:
    """Users who get a notification. Falsy when there are none."""

    everyone: bool = False
    roles: tuple[int, ...] = ()
    users: tuple[User, ...] = ()

    def without(self, author: User) -> Pings:
        """Remove the author, who is never notified."""
        return replace(self, users=tuple(user for user in self.users if user is not author))

    def __bool__(self) -> bool:
        return self.everyone or bool(self.roles) or bool(self.users)


NO_PINGS = Pings()


def allowed_in(body: Json, default: Json) -> Json:
    """An empty object is not the default: it allows nothing."""
    allowed = body.get("allowed_mentions")
    return default if allowed is None else dict(allowed)


def check_allowed_mentions(form: Form, allowed: Any) -> None:
    if allowed is None:
        return
    if not isinstance(allowed, dict):
        form.wrong("allowed_mentions", "MODEL_TYPE_CONVERT", "Only dictionaries may be used in a ModelType")
        return
    parse = allowed.get("parse") or []
    for index, kind in enumerate(parse):
        form.check_choice(f"allowed_mentions.parse.{index}", kind, KINDS)
    for kind in ("users", "roles"):
        listed = allowed.get(kind) or []
        form.check_length(f"allowed_mentions.{kind}", listed, most=100)
        if listed and kind in parse:
            form.wrong(
                "allowed_mentions",
                "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE",
                f'parse:["{kind}"] and {kind}: [ids...] are mutually exclusive.',
            )


def who_is_pinged(
    content: str, allowed: Json, channel: Channel, author: User, replied_to: User | None
) -> Pings:
    """Return who is notified; mentions inside code are text."""
    text = _CODE.sub("", content)
    may_ping_all = channel.may_ping_all(author)
    roles = [
        role.id
        for role in channel.roles_named(map(int, _ROLE.findall(text)))
        if (role.mentionable or may_ping_all) and _is_allowed("roles", role.id, allowed)
    ]
    users = [
        user
        for user in channel.users_named(map(int, _USER.findall(text)))
        if _is_allowed("users", user.id, allowed)
    ]
    if replied_to is not None and allowed.get("replied_user") and replied_to not in users:
        users.append(replied_to)
    everyone = bool(_EVERYONE.search(text)) and may_ping_all and "everyone" in (allowed.get("parse") or [])
    return Pings(everyone, tuple(dict.fromkeys(roles)), tuple(dict.fromkeys(users)))


def _is_allowed(kind: str, snowflake: int, allowed: Json) -> bool:
    return kind in (allowed.get("parse") or []) or str(snowflake) in map(str, allowed.get(kind) or [])
