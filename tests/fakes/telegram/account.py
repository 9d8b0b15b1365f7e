"""Bot API methods about the bot itself and the chats it is in."""

from __future__ import annotations

import ipaddress
import json
import re
from typing import Any
from urllib.parse import urlsplit

from tests.fakes.telegram.errors import bad_request
from tests.fakes.telegram.service_state import TelegramState, membership
from tests.fakes.telegram.state import BotAccount
from tests.fakes.telegram.updates import Update, Webhook
from tests.fakes.telegram.wire import Arguments

_COMMAND = re.compile(r"[a-z0-9_]{1,32}")
_LANGUAGE = re.compile(r"([a-z]{2})?")
_SECRET = re.compile(r"[A-Za-z0-9_-]*")
MAX_COMMANDS = 100
_PLAIN_SCOPES = frozenset(("default", "all_private_chats", "all_group_chats", "all_chat_administrators"))
_CHAT_SCOPES = frozenset(("chat", "chat_administrators", "chat_member"))


def get_me(state: TelegramState, bot: BotAccount, arguments: Arguments) -> dict[str, Any]:
    return bot.user.json() | {
        "can_join_groups": True,
        "can_read_all_group_messages": bot.reads_everything,
        "supports_inline_queries": False,
        "can_connect_to_business": False,
        "has_main_web_app": False,
    }


async def get_updates(state: TelegramState, bot: BotAccount, arguments: Arguments) -> list[Update]:
    limit = arguments.integer("limit", 100)
    bot.updates.allow(arguments.items("allowed_updates"))
    return await bot.updates.take(
        arguments.integer("offset"), limit if 1 <= limit <= 100 else 100, arguments.integer("timeout")
    )


def set_webhook(state: TelegramState, bot: BotAccount, arguments: Arguments) -> bool:
    url = arguments.text("url")
    if not url:
        return delete_webhook(state, bot, arguments)
    _check_webhook(url)
    secret = arguments.text("secret_token")
    if len(secret) > 256:
        raise bad_request("secret token is too long")
    if not _SECRET.fullmatch(secret):
        raise bad_request("secret token contains unallowed characters")
    _maybe_drop(bot, arguments)
    bot.updates.allow(arguments.items("allowed_updates"))
    bot.updates.set_webhook(Webhook(url, secret, arguments.integer("max_connections", 40)))
    return True


def _check_webhook(url: str) -> None:
    """Plain http, as a self-hosted server takes it, and never off this machine."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise bad_request("bad webhook: An HTTPS URL must be provided for webhook")
    try:
        here = ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        here = parts.hostname == "localhost"
    if not here:
        raise bad_request(
            "bad webhook: Failed to resolve host: this server delivers on the loopback interface only"
        )


def delete_webhook(state: TelegramState, bot: BotAccount, arguments: Arguments) -> bool:
    _maybe_drop(bot, arguments)
    if bot.updates.webhook is not None:
        bot.updates.set_webhook(None)
    return True


def _maybe_drop(bot: BotAccount, arguments: Arguments) -> None:
    if arguments.flag("drop_pending_updates"):
        bot.updates.drop_pending()


def get_webhook_info(state: TelegramState, bot: BotAccount, arguments: Arguments) -> dict[str, Any]:
    hook, allowed = bot.updates.webhook, bot.updates.allowed
    body: dict[str, Any] = {
        "url": hook.url if hook else "",
        "has_custom_certificate": False,
        "pending_update_count": len(bot.updates.pending),
    }
    if allowed is not None:
        body["allowed_updates"] = sorted(allowed)
    if hook is not None:
        body["max_connections"] = hook.max_connections
        if hook.last_error:
            body |= {"last_error_date": hook.last_error_at, "last_error_message": hook.last_error}
    return body


def set_my_commands(state: TelegramState, bot: BotAccount, arguments: Arguments) -> bool:
    where = _scope(state, bot, arguments)
    commands = arguments.items("commands") or []
    if len(commands) > MAX_COMMANDS:
        raise bad_request("BOT_COMMANDS_TOO_MUCH")
    for command in commands:
        _check_command(command)
    bot.commands[where] = [{key: one[key] for key in ("command", "description")} for one in commands]
    return True


def _check_command(command: Any) -> None:
    if not isinstance(command, dict):
        raise bad_request("can't parse commands: expected an Object")
    for field in ("command", "description"):
        if not isinstance(command.get(field), str):
            raise bad_request(f"can't parse BotCommand: Can't find field \"{field}\"")
    name, description = command["command"].removeprefix("/"), command["description"].strip()
    if not name:
        raise bad_request("command must be non-empty")
    if not _COMMAND.fullmatch(name):
        raise bad_request("BOT_COMMAND_INVALID")
    if not description:
        raise bad_request("command description must be non-empty")
    if len(description) > 256:
        raise bad_request("command description length must not exceed 256")


def get_my_commands(state: TelegramState, bot: BotAccount, arguments: Arguments) -> list[dict[str, str]]:
    return bot.commands.get(_scope(state, bot, arguments), [])


def delete_my_commands(state: TelegramState, bot: BotAccount, arguments: Arguments) -> bool:
    bot.commands.pop(_scope(state, bot, arguments), None)
    return True


def _scope(state: TelegramState, bot: BotAccount, arguments: Arguments) -> tuple[str, str]:
    scope = arguments.item("scope") or {"type": "default"}
    kind, language = scope.get("type"), arguments.text("language_code")
    if not _LANGUAGE.fullmatch(language):
        raise bad_request("LANG_CODE_INVALID")
    if kind in _CHAT_SCOPES:
        chat = state.reach(bot, scope.get("chat_id"))
        if kind == "chat_member" and scope.get("user_id") not in (chat.members or {chat.id: ""}):
            raise bad_request("user not found")
    elif kind not in _PLAIN_SCOPES:
        raise bad_request("can't parse BotCommandScope: Unsupported type specified")
    return scope_key(scope), language


def scope_key(scope: dict[str, Any]) -> str:
    return json.dumps(scope, sort_keys=True, separators=(",", ":"))


def get_chat(state: TelegramState, bot: BotAccount, arguments: Arguments) -> dict[str, Any]:
    chat = state.reach(bot, arguments.values.get("chat_id"))
    gifts = dict.fromkeys(
        (
            "unlimited_gifts",
            "limited_gifts",
            "unique_gifts",
            "premium_subscription",
            "gifts_from_channels",
        ),
        False,
    )
    return chat.json() | {"accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": gifts}


def get_chat_member(state: TelegramState, bot: BotAccount, arguments: Arguments) -> dict[str, Any]:
    chat = state.reach(bot, arguments.values.get("chat_id"))
    user = state.users.get(arguments.integer("user_id"))
    if user is None:
        raise bad_request("invalid user_id specified")
    if chat.kind == "private":
        return membership(user, "member")
    return membership(user, chat.members.get(user.id, "left"))


def leave_chat(state: TelegramState, bot: BotAccount, arguments: Arguments) -> bool:
    chat = state.reach(bot, arguments.values.get("chat_id"))
    if chat.kind == "private":
        raise bad_request("chat member status can't be changed in private chats")
    before, chat.members[bot.id] = chat.members[bot.id], "left"
    state.tell_standing(chat, bot, before, "left")
    return True


def end_session(state: TelegramState, bot: BotAccount, arguments: Arguments) -> bool:
    return True


ACCOUNT_METHODS = {
    "getMe": get_me,
    "getUpdates": get_updates,
    "setWebhook": set_webhook,
    "deleteWebhook": delete_webhook,
    "getWebhookInfo": get_webhook_info,
    "setMyCommands": set_my_commands,
    "getMyCommands": get_my_commands,
    "deleteMyCommands": delete_my_commands,
    "getChat": get_chat,
    "getChatMember": get_chat_member,
    "leaveChat": leave_chat,
    "logOut": end_session,
    "close": end_session,
}
