"""Rules for messages: lengths, components, embeds, files. A violation is a form error."""

from __future__ import annotations

from typing import Any

from tests.fakes.discord.errors import Form, Json, refused
from tests.fakes.discord.mentions import check_allowed_mentions
from tests.fakes.discord.messages import Upload

MAX_CONTENT = 2000
MAX_NONCE = 25
MAX_FILE_BYTES = 10 * 2**20
MAX_FILES = 10
ROW, BUTTON, STRING_SELECT = 1, 2, 3
SELECTS = (STRING_SELECT, 5, 6, 7, 8)
LINK, PREMIUM = 5, 6


def check_message(form: Form, body: Json, files: dict[int, Upload], *, kept: frozenset[str]) -> None:
    """`files`: the uploads by number. `kept`: ids of attachments the message already has.

    Raises Refused.
    """
    if any(len(file.data) > MAX_FILE_BYTES for file in files.values()):
        raise refused(40005)
    _check_content(form, body.get("content"))
    _check_nonce(form, body.get("nonce"))
    _check_embeds(form, body.get("embeds") or [])
    check_components(form, body.get("components") or [])
    check_allowed_mentions(form, body.get("allowed_mentions"))
    _check_attachments(form, body.get("attachments"), files, kept)
    form.raise_if_wrong()


def _check_content(form: Form, content: Any) -> None:
    if content is None:
        return
    if not isinstance(content, str):
        form.wrong("content", "STRING_TYPE_CONVERT", f'Could not interpret "{content}" as string.')
    else:
        form.check_length("content", content, most=MAX_CONTENT)


def _check_nonce(form: Form, nonce: Any) -> None:
    if nonce is not None:
        form.check_length("nonce", str(nonce), most=MAX_NONCE)


def _check_embeds(form: Form, embeds: list[Json]) -> None:
    form.check_length("embeds", embeds, most=10)
    for index, embed in enumerate(embeds):
        form.check_length(f"embeds.{index}.title", embed.get("title") or "", most=256)
        form.check_length(f"embeds.{index}.description", embed.get("description") or "", most=4096)
        form.check_length(f"embeds.{index}.fields", embed.get("fields") or [], most=25)
    total = sum(len(str(embed.get(key) or "")) for embed in embeds for key in ("title", "description"))
    total += sum(len(f["name"]) + len(f["value"]) for embed in embeds for f in embed.get("fields") or [])
    if total > 6000:
        form.wrong("embeds", "MAX_EMBED_SIZE_EXCEEDED", "Embed size exceeds maximum size of 6000")


def _check_attachments(form: Form, listed: Any, files: dict[int, Upload], kept: frozenset[str]) -> None:
    listed = listed or []
    form.check_length("attachments", listed, most=MAX_FILES)
    form.check_length("files", list(files), most=MAX_FILES)
    known = kept | {str(number) for number in files}
    for index, entry in enumerate(listed):
        if str(entry.get("id")) not in known:
            form.wrong(f"attachments.{index}.id", "ATTACHMENT_NOT_FOUND", "Attachment not found")


def check_components(form: Form, rows: list[Json]) -> None:
    form.check_length("components", rows, most=5)
    custom_ids: set[str] = set()
    for index, row in enumerate(rows):
        path = f"components.{index}"
        if form.check_choice(f"{path}.type", row.get("type"), (ROW,)):
            _check_row(form, path, row.get("components") or [], custom_ids)


def _check_row(form: Form, path: str, parts: list[Json], custom_ids: set[str]) -> None:
    if not parts:
        form.check_length(f"{path}.components", parts, least=1, most=5)
    width = 0
    for index, part in enumerate(parts):
        place = f"{path}.components.{index}"
        if not form.check_choice(f"{place}.type", part.get("type"), (BUTTON, *SELECTS)):
            continue
        width += 1 if part["type"] == BUTTON else 5
        if width > 5:
            message = "The specified component exceeds the maximum width"
            form.wrong(place, "COMPONENT_LAYOUT_WIDTH_EXCEEDED", message)
        if part["type"] == BUTTON:
            _check_button(form, place, part)
        else:
            _check_select(form, place, part)
        _check_custom_id(form, place, part, custom_ids)


def _check_button(form: Form, path: str, button: Json) -> None:
    style = button.get("style")
    if not form.check_choice(f"{path}.style", style, (1, 2, 3, 4, 5, 6)):
        return
    form.check_length(f"{path}.label", button.get("label") or "", most=80)
    if not button.get("label") and not button.get("emoji") and style != PREMIUM:
        form.wrong(path, "BUTTON_COMPONENT_INVALID", "A button must have a label or emoji")
    if style == LINK:
        if button.get("custom_id"):
            message = "A custom id and url cannot both be specified"
            form.wrong(f"{path}.custom_id", "BUTTON_COMPONENT_CUSTOM_ID_URL_MUTUALLY_EXCLUSIVE", message)
        form.require(f"{path}.url", button.get("url"))


def _check_select(form: Form, path: str, select: Json) -> None:
    form.check_length(f"{path}.placeholder", select.get("placeholder") or "", most=150)
    if select["type"] != STRING_SELECT:
        return
    options = select.get("options") or []
    form.check_length(f"{path}.options", options, least=1, most=25)
    values = [option.get("value") for option in options]
    for index, option in enumerate(options):
        form.check_length(f"{path}.options.{index}.label", option.get("label") or "", least=1, most=100)
        form.check_length(f"{path}.options.{index}.value", option.get("value") or "", most=100)
        if option.get("value") in values[:index]:
            message = "The specified option value is already used"
            form.wrong(f"{path}.options.{index}", "SELECT_COMPONENT_OPTION_VALUE_DUPLICATED", message)


def _check_custom_id(form: Form, path: str, part: Json, custom_ids: set[str]) -> None:
    if part["type"] == BUTTON and part.get("style") in (LINK, PREMIUM):
        return
    custom_id = part.get("custom_id")
    if not form.require(f"{path}.custom_id", custom_id):
        return
    form.check_length(f"{path}.custom_id", str(custom_id), least=1, most=100)
    if str(custom_id) in custom_ids:
        message = "Component custom id cannot be duplicated"
        form.wrong(f"{path}.custom_id", "COMPONENT_CUSTOM_ID_DUPLICATED", message)
    custom_ids.add(str(custom_id))
