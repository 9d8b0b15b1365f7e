"""The parts of a send or an edit a person will see, checked: text, caption, keyboard."""

from __future__ import annotations

from typing import Any

from tests.fakes.telegram.errors import bad_request
from tests.fakes.telegram.html import parse_html
from tests.fakes.telegram.markdown import parse_markdown
from tests.fakes.telegram.text import (
    MAX_CAPTION,
    MAX_TEXT,
    Formatted,
    checked_entities,
    is_link,
    nested,
    trimmed,
    units,
)
from tests.fakes.telegram.wire import Arguments

MAX_CALLBACK_BYTES = 64
_ACTIONS = ("callback_data", "url", "login_url", "web_app", "switch_inline_query", "copy_text", "pay")
_ACTIONS_HERE = (*_ACTIONS, "switch_inline_query_current_chat", "switch_inline_query_chosen_chat")


def message_text(arguments: Arguments) -> Formatted:
    if not arguments.text("text"):
        raise bad_request("message text is empty")
    formatted = _formatted(arguments, "text", "entities")
    if not formatted.text:
        raise bad_request("text must be non-empty")
    if units(formatted.text) > MAX_TEXT:
        raise bad_request("message is too long")
    return formatted


def message_caption(arguments: Arguments) -> Formatted:
    formatted = _formatted(arguments, "caption", "caption_entities")
    if units(formatted.text) > MAX_CAPTION:
        raise bad_request("message caption is too long")
    return formatted


def _formatted(arguments: Arguments, text_field: str, entities_field: str) -> Formatted:
    source = arguments.text(text_field)
    mode = arguments.text("parse_mode").lower()
    if mode == "html":
        formatted = parse_html(source)
    elif mode == "markdownv2":
        formatted = parse_markdown(source)
    elif mode:
        raise bad_request("unsupported parse_mode")
    else:
        return trimmed(checked_entities(source, arguments.items(entities_field) or []))
    return trimmed(Formatted(formatted.text, nested(formatted.entities)))


def inline_keyboard(arguments: Arguments) -> list[list[dict[str, Any]]]:
    """The rows of buttons under the message; other kinds of markup are taken and not shown."""
    markup = arguments.item("reply_markup")
    if markup is None:
        return []
    if "inline_keyboard" not in markup:
        return []
    rows = markup["inline_keyboard"]
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise bad_request('field "inline_keyboard" of the InlineKeyboardMarkup must be an Array of Arrays')
    if sum(len(row) for row in rows) > 100:
        raise bad_request("reply markup is too long")
    for button in (button for row in rows for button in row):
        _check_button(button)
    return [row for row in rows if row]


def _check_button(button: Any) -> None:
    broken = "can't parse inline keyboard button: "
    if not isinstance(button, dict):
        raise bad_request(broken + "InlineKeyboardButton must be an Object")
    if not isinstance(button.get("text"), str):
        raise bad_request(broken + 'Can\'t find field "text"')
    if not button["text"].strip():
        raise bad_request("inline keyboard button text must be non-empty")
    given = [action for action in _ACTIONS_HERE if action in button]
    if not given:
        raise bad_request(broken + "Text buttons are unallowed in the inline keyboard")
    if "callback_data" in button:
        data = button["callback_data"]
        if not isinstance(data, str) or not 1 <= len(data.encode()) <= MAX_CALLBACK_BYTES:
            raise bad_request("BUTTON_DATA_INVALID")
    if "url" in button and not is_link(str(button["url"])):
        raise bad_request(f"inline keyboard button URL '{button['url']}' is invalid: Wrong HTTP URL")
