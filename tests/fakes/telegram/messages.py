"""Bot API methods that put something into a chat, change it or take it away."""

from __future__ import annotations

import time
from typing import Any

from tests.fakes.telegram.content import inline_keyboard, message_caption, message_text
from tests.fakes.telegram.errors import bad_request
from tests.fakes.telegram.files import MAX_DOWNLOAD, sent_file
from tests.fakes.telegram.service_state import TelegramState, placement
from tests.fakes.telegram.state import GENERAL_TOPIC, BotAccount, Chat, ChatAction, Message
from tests.fakes.telegram.text import Formatted, units
from tests.fakes.telegram.wire import Arguments

DELETABLE_FOR = 48 * 3600
_ACTIONS = frozenset((
    "typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice",
    "upload_document", "choose_sticker", "find_location", "record_video_note", "upload_video_note",
))  # fmt: skip
_PLAIN_EMOJI = (
    "❤👍👎🔥🥰👏😁🤔🤯😱🤬😢🎉🤩🤮💩🙏👌🕊🤡🥱🥴😍🐳🌚🌭💯🤣⚡🍌🏆💔🤨😐🍓🍾💋🖕😈😴😭🤓👻"
    "👀🎃🙈😇😨🤝✍🤗🫡🎅🎄☃💅🤪🗿🆒💘🙉🦄😘💊🙊😎👾🤷😡"
)
_EMOJI = frozenset(_PLAIN_EMOJI) | {"❤\u200d🔥", "👨\u200d💻", "🤷\u200d♂", "🤷\u200d♀"}
_NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup "
    "are exactly the same as a current content and reply markup of the message"
)


def send_message(state: TelegramState, bot: BotAccount, arguments: Arguments) -> dict[str, Any]:
    chat = state.reach(bot, arguments.values.get("chat_id"))
    return _send(state, bot, chat, arguments, message_text(arguments))


def send_document(state: TelegramState, bot: BotAccount, arguments: Arguments) -> dict[str, Any]:
    return _send_file(state, bot, arguments, "document")


def send_photo(state: TelegramState, bot: BotAccount, arguments: Arguments) -> dict[str, Any]:
    return _send_file(state, bot, arguments, "photo")


def _send_file(state: TelegramState, bot: BotAccount, arguments: Arguments, field: str) -> dict[str, Any]:
    chat = state.reach(bot, arguments.values.get("chat_id"))
    caption = message_caption(arguments)
    attachment = sent_file(state.files, arguments, field)
    return _send(state, bot, chat, arguments, caption, attachment=attachment)


def _send(
    state: TelegramState, bot: BotAccount, chat: Chat, arguments: Arguments, content: Formatted, **fields: Any
) -> dict[str, Any]:
    keyboard = inline_keyboard(arguments)
    thread = _thread(chat, arguments)
    reply_to, quote = _reply(chat, arguments)
    _pay(state, bot, chat)
    message = chat.post(
        bot.user,
        content,
        keyboard=keyboard,
        quote=quote,
        silent=arguments.flag("disable_notification"),
        **placement(chat, thread, reply_to),
        **fields,
    )
    return message.json()


def _pay(state: TelegramState, bot: BotAccount, chat: Chat) -> None:
    state.limits.spend(bot.id, chat.id, in_group=chat.kind != "private")


def _thread(chat: Chat, arguments: Arguments) -> int | None:
    """The General topic has no address: naming it by its number is refused like any unknown one."""
    thread = arguments.integer("message_thread_id")
    if not thread:
        return None
    if thread not in chat.topics:
        raise bad_request("message thread not found")
    if thread in chat.closed_topics:
        raise bad_request("TOPIC_CLOSED")
    return thread


def _reply(chat: Chat, arguments: Arguments) -> tuple[Message | None, dict[str, Any] | None]:
    parameters = arguments.item("reply_parameters") or {
        "message_id": arguments.integer("reply_to_message_id"),
        "allow_sending_without_reply": arguments.flag("allow_sending_without_reply"),
    }
    if not parameters.get("message_id"):
        return None, None
    if parameters.get("chat_id") not in (None, chat.id):
        raise bad_request("chat not found")
    message = chat.find(parameters["message_id"])
    if message is None:
        if parameters.get("allow_sending_without_reply"):
            return None, None
        raise bad_request("message to be replied not found")
    quoted = parameters.get("quote")
    if not quoted:
        return message, None
    if quoted not in message.text:
        raise bad_request("QUOTE_TEXT_INVALID")
    return message, {"text": quoted, "position": units(message.text.partition(quoted)[0]), "is_manual": True}


def edit_message_text(state: TelegramState, bot: BotAccount, arguments: Arguments) -> dict[str, Any]:
    message = _own_message(state, bot, arguments)
    content = message_text(arguments)
    if message.attachment is not None:
        raise bad_request("there is no text in the message to edit")
    return _edit(state, bot, message, content, arguments)


def edit_message_caption(state: TelegramState, bot: BotAccount, arguments: Arguments) -> dict[str, Any]:
    message = _own_message(state, bot, arguments)
    content = message_caption(arguments)
    if message.attachment is None:
        raise bad_request("there is no caption in the message to edit")
    return _edit(state, bot, message, content, arguments)


def edit_message_reply_markup(state: TelegramState, bot: BotAccount, arguments: Arguments) -> dict[str, Any]:
    message = _own_message(state, bot, arguments)
    return _edit(state, bot, message, Formatted(message.text, message.entities), arguments)


def _edit(
    state: TelegramState, bot: BotAccount, message: Message, content: Formatted, arguments: Arguments
) -> dict[str, Any]:
    """An edit that names no keyboard takes the old one away."""
    keyboard = inline_keyboard(arguments)
    if (message.text, message.entities, message.keyboard) == (content.text, content.entities, keyboard):
        raise bad_request(_NOT_MODIFIED)
    _pay(state, bot, message.chat)
    message.chat.edit(message, content, keyboard)
    return message.json()


def _own_message(state: TelegramState, bot: BotAccount, arguments: Arguments) -> Message:
    _, message = _named_message(state, bot, arguments)
    if message is None:
        raise bad_request("message to edit not found")
    if message.sender.id != bot.id:
        raise bad_request("message can't be edited")
    return message


def _named_message(
    state: TelegramState, bot: BotAccount, arguments: Arguments
) -> tuple[Chat, Message | None]:
    chat = state.reach(bot, arguments.values.get("chat_id"))
    message_id = arguments.integer("message_id")
    if not message_id:
        raise bad_request("message identifier is not specified")
    return chat, chat.find(message_id)


def delete_message(state: TelegramState, bot: BotAccount, arguments: Arguments) -> bool:
    chat, message = _named_message(state, bot, arguments)
    if message is None:
        raise bad_request("message to delete not found")
    foreign = message.sender.id != bot.id and chat.kind != "private"
    if foreign and chat.members.get(bot.id) != "administrator":
        raise bad_request("message can't be deleted")
    if time.time() - message.date > DELETABLE_FOR:
        raise bad_request("message can't be deleted for everyone")
    chat.delete(message)
    return True


def send_chat_action(state: TelegramState, bot: BotAccount, arguments: Arguments) -> bool:
    chat = state.reach(bot, arguments.values.get("chat_id"))
    action = arguments.text("action")
    if action not in _ACTIONS:
        raise bad_request("wrong parameter action in request")
    in_general = chat.is_forum and arguments.integer("message_thread_id") == GENERAL_TOPIC
    thread = GENERAL_TOPIC if in_general else _thread(chat, arguments)
    chat.actions.append(ChatAction(action, thread, time.monotonic()))
    chat.changed()
    return True


def set_message_reaction(state: TelegramState, bot: BotAccount, arguments: Arguments) -> bool:
    chat, message = _named_message(state, bot, arguments)
    if message is None:
        raise bad_request("message to react not found")
    reactions = arguments.items("reaction") or []
    if len(reactions) > 1:
        raise bad_request("REACTIONS_TOO_MANY")
    emoji = [str(reaction.get("emoji")) for reaction in reactions]
    if any(one not in _EMOJI for one in emoji):
        raise bad_request("REACTION_INVALID")
    message.reactions[bot.id] = emoji
    chat.changed()
    return True


def answer_callback_query(state: TelegramState, bot: BotAccount, arguments: Arguments) -> bool:
    query = state.queries.get(arguments.text("callback_query_id"))
    foreign = query is None or query.message.sender.id != bot.id
    if query is None or foreign or query.expired or query.answer is not None:
        raise bad_request("query is too old and response timeout expired or query ID is invalid")
    if units(arguments.text("text")) > 200:
        raise bad_request("MESSAGE_TOO_LONG")
    query.answer = dict(arguments.values)
    state.watch.changed()
    return True


def get_file(state: TelegramState, bot: BotAccount, arguments: Arguments) -> dict[str, Any]:
    file_id = arguments.text("file_id")
    attachment = state.files.by_id(file_id)
    if attachment is None:
        raise bad_request("invalid file_id")
    if attachment.file.size > MAX_DOWNLOAD:
        raise bad_request("file is too big")
    return attachment.file.json() | {"file_id": file_id, "file_path": attachment.file.path}


MESSAGE_METHODS = {
    "sendMessage": send_message,
    "sendDocument": send_document,
    "sendPhoto": send_photo,
    "sendChatAction": send_chat_action,
    "editMessageText": edit_message_text,
    "editMessageCaption": edit_message_caption,
    "editMessageReplyMarkup": edit_message_reply_markup,
    "deleteMessage": delete_message,
    "setMessageReaction": set_message_reaction,
    "answerCallbackQuery": answer_callback_query,
    "getFile": get_file,
}
