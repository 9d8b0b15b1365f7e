"""A Telegram of our own on the loopback: the Bot API as strict as the real one, and people who use it.

    async with FakeTelegram() as server:
        bot = Bot(server.token, base_url=server.url + "/bot", base_file_url=server.url + "/file/bot")
        ada = server.person(first_name="Ada", username="ada_l")
        asked = await ada.says("/help")                       # private chat with the first bot
        answer = await ada.chat.answer_after(asked)           # waits for what the bot says
        done = await ada.chat.message(lambda m: "done" in m.text)
        query = await ada.presses(done, "Allow once")
        await query.answered()
        assert done.versions[-1] == done.text and not done.deleted

        team = server.supergroup("Team", ada, forum=True)      # server.group("Team", ada) for a basic group
        billing = team.topic("Billing")
        await ada.says("@hermes_bot hello", chat=team, thread=billing)

        server.fail_next("sendMessage", Fault.flood(3))        # .error .drop .lost .hang
        with server.hold("editMessageText") as held:           # every such call waits
            call = await held.arrived()
        server.limits = Limits.real()                          # off until then
        server.hold_updates(); ...; server.release_updates()    # or order=reversed
        server.redeliver(asked)
        assert server.most_edits_in_flight <= 1

Chats, messages and calls are plain state: `server.chats[id].messages` (visible now), `.history`, `.actions`,
`server.calls`. `await server.wait_for(condition)` wakes on every change.
"""

from __future__ import annotations

import contextlib
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Self

from aiohttp import web

from tests.fakes.telegram.account import ACCOUNT_METHODS
from tests.fakes.telegram.errors import Refused
from tests.fakes.telegram.faults import ALWAYS, Call, Fault, Planned
from tests.fakes.telegram.files import MAX_UPLOAD
from tests.fakes.telegram.limits import Limits, Pace
from tests.fakes.telegram.messages import MESSAGE_METHODS
from tests.fakes.telegram.people import Person
from tests.fakes.telegram.service_state import TOKEN, CallbackQuery, TelegramState
from tests.fakes.telegram.state import BotAccount, Chat, Message, Topic, User
from tests.fakes.telegram.updates import Update
from tests.fakes.telegram.waiting import seen
from tests.fakes.telegram.wire import Arguments, read_arguments
from tests.support.watch import PATIENCE

__all__ = [
    "BotAccount",
    "Call",
    "CallbackQuery",
    "Chat",
    "FakeTelegram",
    "Fault",
    "Limits",
    "Message",
    "Pace",
    "Person",
    "Topic",
]

DEFAULT_TOKEN = "7000000001:AAHermes-loopback_token-of-the-tests"
_METHODS: dict[str, tuple[str, Callable[[TelegramState, BotAccount, Arguments], Any]]] = {
    name.lower(): (name, method) for name, method in {**ACCOUNT_METHODS, **MESSAGE_METHODS}.items()
}


class FakeTelegram(TelegramState):
    def __init__(
        self,
        *,
        token: str = DEFAULT_TOKEN,
        username: str = "hermes_bot",
        reads_everything: bool = True,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(limits=limits or Limits())
        self.token = token
        self.calls: list[Call] = []
        """Every call with a known token, in order of arrival."""
        self.strangers: list[str] = []
        """Paths that were asked for with an unknown or malformed token."""
        self.most_edits_in_flight = 0
        """The most edits of one message that were ever under way at the same time."""
        self._edits: Counter[tuple[int, Any, Any]] = Counter()
        self._planned: list[Planned] = []
        self.add_bot(token, username, reads_everything=reads_everything)

    @property
    def url(self) -> str:
        """The root: `<url>/bot<token>/<method>` and `<url>/file/bot<token>/<path>`."""
        return f"http://127.0.0.1:{self.port}"

    def person(
        self,
        *,
        id: int | None = None,
        first_name: str = "Ada",
        last_name: str = "",
        username: str = "",
        language_code: str = "en",
    ) -> Person:
        user_id = id if id is not None else 500_000 + next(self.numbers)
        user = User(user_id, first_name, False, last_name, username, language_code)
        self.users[user.id] = user
        return Person(self, user)

    def group(
        self, title: str, *people: Person, id: int | None = None, bots: Iterable[BotAccount] | None = None
    ) -> Chat:
        """A basic group with the first bot (or those given) in it; the first person founded it."""
        chat_id = id if id is not None else -40_000 - next(self.numbers)
        return self._found(title, chat_id, people, bots, forum=False)

    def supergroup(
        self,
        title: str,
        *people: Person,
        id: int | None = None,
        forum: bool = False,
        bots: Iterable[BotAccount] | None = None,
    ) -> Chat:
        chat_id = id if id is not None else -1_001_000_000_000 - next(self.numbers)
        return self._found(title, chat_id, people, bots, forum=forum)

    def upgraded(self, group: Chat) -> Chat:
        """The supergroup that takes the place of this group."""
        return self.upgrade(group, -1_001_000_000_000 - next(self.numbers))

    def fail_next(
        self,
        method: str,
        fault: Fault,
        *,
        times: int = 1,
        after: int = 0,
        when: Callable[[Call], bool] | None = None,
    ) -> Planned:
        """The next calls of that method (past the first `after`, and as `when` wants them) meet the fault."""
        assert method.lower() in _METHODS, f"no method {method}"
        planned = Planned(method, fault, times=times, after=after, when=when)
        self._planned.append(planned)
        return planned

    def hold(self, method: str, *, when: Callable[[Call], bool] | None = None) -> Planned:
        """Every such call waits before anything happens, until `.release()` or the end of the `with`."""
        return self.fail_next(method, Fault.hang(), times=ALWAYS, when=when)

    def hold_updates(self, bot: BotAccount | None = None) -> None:
        (bot or self.bot).updates.hold()

    def release_updates(
        self,
        bot: BotAccount | None = None,
        *,
        order: Callable[[list[Update]], Iterable[Update]] | None = None,
    ) -> None:
        """Delivers what was held back, in another `order` (say `reversed`) if wanted."""
        (bot or self.bot).updates.release(order)

    def redeliver(self, message: Message, bot: BotAccount | None = None) -> None:
        """The update that told of this message arrives once more, with its old update_id."""
        updates = (bot or self.bot).updates
        updates.repeat(
            update
            for update in updates.history
            if update.get("message", {}).get("message_id") == message.id
            and update["message"]["chat"]["id"] == message.chat.id
        )

    def calls_of(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    @property
    def refusals(self) -> list[str]:
        """Error descriptions of calls that broke a rule."""
        return [call.error for call in self.calls if call.error]

    def wait_for(self, condition: Callable[[], bool], timeout: float = PATIENCE) -> Awaitable[bool]:
        """Until the condition holds; it is looked at after every call and every change in any chat."""
        return seen(self.watch, lambda: condition() or None, timeout, self._last_calls)

    def called(self, method: str, count: int = 1, timeout: float = PATIENCE) -> Awaitable[bool]:
        """Until that many calls of the method have arrived."""
        return self.wait_for(lambda: len(self.calls_of(method)) >= count, timeout)

    def _last_calls(self) -> str:
        return "The last calls: " + ", ".join(
            f"{call.method} {call.error or 'ok'}" for call in self.calls[-12:]
        )

    async def __aenter__(self) -> Self:
        await self._listen(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.go_down()

    async def go_down(self) -> None:
        """Telegram cannot be reached: every connection ends and none is taken."""
        for planned in self._planned:
            planned.release()
        for bot in self.bots.values():
            await bot.updates.close()
        await self._runner.cleanup()

    async def come_back(self) -> None:
        """At the same address, with everything it knew."""
        await self._listen(self.port)
        for bot in self.bots.values():
            if bot.updates.webhook is not None:
                bot.updates.set_webhook(bot.updates.webhook)

    async def _listen(self, port: int) -> None:
        app = web.Application(client_max_size=MAX_UPLOAD + 2**20)
        app.router.add_route("*", "/bot{token}/{method}", self._answer)
        app.router.add_get("/file/bot{token}/{path:.+}", self._download)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.port: int = self._runner.addresses[0][1]

    def _found(
        self,
        title: str,
        chat_id: int,
        people: Iterable[Person],
        bots: Iterable[BotAccount] | None,
        *,
        forum: bool,
    ) -> Chat:
        users = [person.user for person in people]
        assert users, "somebody founds a group"
        return self.found_group(title, chat_id, users, [self.bot] if bots is None else bots, forum=forum)

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            bot = self._bot_of(request)
            call = Call("", await read_arguments(request), bot.id)
            name, method = self._method_of(request)
        except Refused as refused:
            return web.json_response(refused.body(), status=refused.code)
        call.method = name
        self.calls.append(call)
        self.watch.changed()
        try:
            with self._edit_in_flight(call):
                return await self._carry_out(request, call, bot, method)
        except Refused as refused:
            call.error = refused.description
            return web.json_response(refused.body(), status=refused.code)
        finally:
            call.done = True
            self.watch.changed()

    async def _carry_out(
        self,
        request: web.Request,
        call: Call,
        bot: BotAccount,
        method: Callable[[TelegramState, BotAccount, Arguments], Any],
    ) -> web.Response:
        planned = next((planned for planned in self._planned if planned.meets(call)), None)
        fault = planned.fault if planned is not None else None
        if planned is not None and planned.fault.kind == "hang":
            await planned.passed()
        if fault is not None and fault.refusal is not None:
            raise Refused(fault.refusal.code, fault.refusal.description, **fault.refusal.parameters)
        if fault is not None and fault.kind == "drop":
            return self._torn(request, call)
        outcome = method(self, bot, call.arguments)
        call.result = await outcome if inspect.isawaitable(outcome) else outcome
        if fault is not None and fault.kind == "lost":
            return self._torn(request, call)
        result = fault.result if fault is not None and fault.kind == "odd" else call.result
        return web.json_response({"ok": True, "result": result})

    def _torn(self, request: web.Request, call: Call) -> web.Response:
        call.error = "connection dropped"
        if request.transport is not None:
            request.transport.abort()
        return web.Response()  # never sent: the connection is gone

    def _bot_of(self, request: web.Request) -> BotAccount:
        token = request.match_info["token"]
        bot = self.bots.get(token)
        if bot is None:
            self.strangers.append(request.path)
            raise Refused(401, "Unauthorized") if TOKEN.fullmatch(token) else Refused(404, "Not Found")
        return bot

    def _method_of(
        self, request: web.Request
    ) -> tuple[str, Callable[[TelegramState, BotAccount, Arguments], Any]]:
        known = _METHODS.get(request.match_info["method"].lower())
        if known is None:
            raise Refused(404, "Not Found: method not found")
        return known

    @contextlib.contextmanager
    def _edit_in_flight(self, call: Call) -> Iterator[None]:
        """Count the call from its arrival to its answer, also if it fails; ignore other methods."""
        if not call.method.startswith("editMessage"):
            yield
            return
        edited = (call.bot_id, call.chat_id, call.params.get("message_id"))
        self._edits[edited] += 1
        self.most_edits_in_flight = max(self.most_edits_in_flight, self._edits[edited])
        try:
            yield
        finally:
            self._edits[edited] -= 1

    async def _download(self, request: web.Request) -> web.Response:
        try:
            self._bot_of(request)
            file = self.files.by_path(request.match_info["path"])
            if file is None:
                raise Refused(404, "Not Found")
        except Refused as refused:
            return web.json_response(refused.body(), status=refused.code)
        return web.Response(body=file.data, content_type="application/octet-stream")
