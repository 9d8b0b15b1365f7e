"""Every route the loopback Discord has, under the name by which tests speak of it."""

from __future__ import annotations

from tests.fakes.discord.application import ApplicationRoutes
from tests.fakes.discord.channels import ChannelRoutes
from tests.fakes.discord.commands import Commands
from tests.fakes.discord.interactions import Interactions
from tests.fakes.discord.rest import Act

_CHANNEL = "/channels/{channel_id}"
_MESSAGE = _CHANNEL + "/messages/{message_id}"
_COMMANDS = "/applications/{application_id}/commands"
_GUILD_COMMANDS = "/applications/{application_id}/guilds/{guild_id}/commands"
_WEBHOOK = "/webhooks/{application_id}/{token}"

ROUTES: tuple[tuple[str, str, str], ...] = (
    ("get_gateway", "GET", "/gateway"),
    ("get_gateway_bot", "GET", "/gateway/bot"),
    ("get_me", "GET", "/users/@me"),
    ("get_application", "GET", "/oauth2/applications/@me"),
    ("get_application", "GET", "/applications/@me"),
    ("create_dm", "POST", "/users/@me/channels"),
    ("get_user", "GET", "/users/{user_id}"),
    ("get_guild", "GET", "/guilds/{guild_id}"),
    ("get_guild_channels", "GET", "/guilds/{guild_id}/channels"),
    ("get_member", "GET", "/guilds/{guild_id}/members/{user_id}"),
    ("get_active_threads", "GET", "/guilds/{guild_id}/threads/active"),
    ("get_channel", "GET", _CHANNEL),
    ("edit_channel", "PATCH", _CHANNEL),
    ("type", "POST", _CHANNEL + "/typing"),
    ("create_thread", "POST", _CHANNEL + "/threads"),
    ("join_thread", "PUT", _CHANNEL + "/thread-members/@me"),
    ("get_messages", "GET", _CHANNEL + "/messages"),
    ("send_message", "POST", _CHANNEL + "/messages"),
    ("get_message", "GET", _MESSAGE),
    ("edit_message", "PATCH", _MESSAGE),
    ("delete_message", "DELETE", _MESSAGE),
    ("create_thread_on_message", "POST", _MESSAGE + "/threads"),
    ("add_reaction", "PUT", _MESSAGE + "/reactions/{emoji}/@me"),
    ("remove_reaction", "DELETE", _MESSAGE + "/reactions/{emoji}/@me"),
    ("list_commands", "GET", _COMMANDS),
    ("overwrite_commands", "PUT", _COMMANDS),
    ("create_command", "POST", _COMMANDS),
    ("get_command", "GET", _COMMANDS + "/{command_id}"),
    ("edit_command", "PATCH", _COMMANDS + "/{command_id}"),
    ("delete_command", "DELETE", _COMMANDS + "/{command_id}"),
    ("list_commands", "GET", _GUILD_COMMANDS),
    ("overwrite_commands", "PUT", _GUILD_COMMANDS),
    ("create_command", "POST", _GUILD_COMMANDS),
    ("get_command", "GET", _GUILD_COMMANDS + "/{command_id}"),
    ("edit_command", "PATCH", _GUILD_COMMANDS + "/{command_id}"),
    ("delete_command", "DELETE", _GUILD_COMMANDS + "/{command_id}"),
    ("respond", "POST", "/interactions/{interaction_id}/{token}/callback"),
    ("follow_up", "POST", _WEBHOOK),
    ("get_reply", "GET", _WEBHOOK + "/messages/{message_id}"),
    ("edit_reply", "PATCH", _WEBHOOK + "/messages/{message_id}"),
    ("delete_reply", "DELETE", _WEBHOOK + "/messages/{message_id}"),
)
"""(name, method, path). The address of a file is "get_file"."""


def acts(
    application: ApplicationRoutes, channels: ChannelRoutes, commands: Commands, interactions: Interactions
) -> dict[str, Act]:
    """What each name does: the method of that name, commands apart."""
    known: dict[str, Act] = {
        "list_commands": commands.list,
        "overwrite_commands": commands.overwrite,
        "create_command": commands.create,
        "get_command": commands.get,
        "edit_command": commands.edit,
        "delete_command": commands.delete,
    }
    for verb, _, _ in ROUTES:
        for owner in (application, channels, interactions):
            if verb not in known and hasattr(owner, verb):
                known[verb] = getattr(owner, verb)
    return known
