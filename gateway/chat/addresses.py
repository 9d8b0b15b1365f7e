"""Names the messages, people and conversations of one bot."""

from __future__ import annotations

from agent.store import Address
from gateway.core.inbox_codec import inbox_id
from gateway.types import Author, ChatMessage, Place


class BotAddresses:
    """Derives ids and addresses from the data of a chat service.

    With `per_person`, every member of a group has a conversation of their own."""

    def __init__(self, platform: str, *, per_person: bool) -> None:
        self._platform = platform
        self._service = platform.partition("/")[0]
        """The bots `telegram` and `telegram/work` know the same people by the same ids."""
        self._per_person = per_person

    def message_id(self, place: Place, message_id: str) -> str:
        """Return the inbox id of a message."""
        return inbox_id(self._platform, place, message_id)

    def further_ids(self, message: ChatMessage) -> list[str]:
        """Return the inbox ids of the parts that were joined to the message."""
        return [self.message_id(message.place, part) for part in message.further_parts]

    def all_ids(self, message: ChatMessage) -> list[str]:
        return [self.message_id(message.place, message.id), *self.further_ids(message)]

    def person_key(self, author: Author) -> str:
        """Return the key under which limits, budget and memory know a person."""
        return f"{self._service}:{author.id}"

    def address(self, message: ChatMessage) -> Address:
        """Return the address of the conversation that the message belongs to."""
        place = message.place
        user_id = message.author.id if place.kind == "group" and self._per_person else ""
        return Address(self._platform, place.chat_id, place.thread_id, user_id)

    def scope(self, place: Place, author: Author) -> str:
        """Return the scope of the memory and the searches of a conversation.

        A direct chat has the scope of its person. A group or thread has its own scope, because it has other readers
        than the person's direct chat and other groups."""
        if place.kind == "direct":
            return self.person_key(author)
        group = f"{self._service}:group:{place.chat_id}"
        group += f":{place.thread_id}" if place.thread_id else ""
        return f"{group}:by:{author.id}" if self._per_person else group
