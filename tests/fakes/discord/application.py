"""REST endpoints about the bot itself: who it is, its application, its guilds, where its gateway is."""

from __future__ import annotations

from tests.fakes.discord.channels import as_id
from tests.fakes.discord.errors import Json, refused
from tests.fakes.discord.faults import Call
from tests.fakes.discord.gateway import Gateway
from tests.fakes.discord.places import Guild
from tests.fakes.discord.service_state import DiscordState


class ApplicationRoutes:
    def __init__(self, state: DiscordState, gateway: Gateway) -> None:
        self.state = state
        self.gateway = gateway
        self.gateway_url = ""

    def get_me(self, call: Call) -> Json:
        return {**self.state.bot.json(), "mfa_enabled": False, "verified": True, "email": None, "flags": 0}

    def get_application(self, call: Call) -> Json:
        bot = self.state.bot
        owner = next(iter(self.state.guilds.values())).owner
        return {
            "id": str(bot.id),
            "name": bot.name,
            "icon": None,
            "description": "",
            "summary": "",
            "verify_key": "0" * 64,
            "bot_public": True,
            "bot_require_code_grant": False,
            "flags": self.gateway.application_flags,
            "owner": owner.json(),
            "team": None,
            "interactions_endpoint_url": None,
            "integration_types_config": {"0": {}},
            "bot": bot.json(),
        }

    def get_gateway(self, call: Call) -> Json:
        return {"url": self.gateway_url}

    def get_gateway_bot(self, call: Call) -> Json:
        used = len(self.gateway.identifies)
        limit = {"total": 1000, "remaining": 1000 - used, "reset_after": 86_400_000, "max_concurrency": 1}
        return {"url": self.gateway_url, "shards": 1, "session_start_limit": limit}

    def get_user(self, call: Call) -> Json:
        user = self.state.users.get(as_id("user_id", call.ids["user_id"]))
        if user is None:
            raise refused(10013)
        return user.json()

    def get_guild(self, call: Call) -> Json:
        return self._guild(call).json(members=())

    def get_guild_channels(self, call: Call) -> list[Json]:
        return [channel.json() for channel in self._guild(call).channels if not channel.is_thread]

    def get_member(self, call: Call) -> Json:
        member = self._guild(call).members.get(as_id("user_id", call.ids["user_id"]))
        if member is None:
            raise refused(10007)
        return member.json()

    def _guild(self, call: Call) -> Guild:
        guild = self.state.guilds.get(as_id("guild_id", call.ids["guild_id"]))
        if guild is None:
            raise refused(10004)
        return guild
