"""Requests that Anthropic refuses, with its error texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.fakes.model_server import Refused

KNOWN_FIELDS = {
    "model",
    "messages",
    "max_tokens",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "metadata",
    "thinking",
    "service_tier",
    "container",
    "mcp_servers",
    "context_management",
    "output_config",
    "inference_geo",
    "cache_control",
}
BLOCK_FIELDS = {
    "text": {"type", "text", "cache_control", "citations"},
    "image": {"type", "source", "cache_control"},
    "document": {"type", "source", "title", "context", "citations", "cache_control"},
    "tool_use": {"type", "id", "name", "input", "cache_control"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
}
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")
MAX_MARKERS = 4


def blocks_of(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Plain text is one text block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def check_request(body: dict[str, Any]) -> None:
    for name in body:
        if name not in KNOWN_FIELDS:
            raise Refused(f"{name}: Extra inputs are not permitted")
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            raise Refused(f"{name}: Field required")
    if body["max_tokens"] < 1:
        raise Refused("max_tokens: Input should be greater than or equal to 1")
    if not 0 <= body.get("temperature", 1) <= 1:
        raise Refused("temperature: range: 0..1")
    _check_roles(body["messages"])
    for index, message in enumerate(body["messages"]):
        _check_blocks(index, message, last=index == len(body["messages"]) - 1)
    _check_pairs(body["messages"])
    _check_tools(body)
    _check_markers(body)


def _check_roles(messages: list[dict[str, Any]]) -> None:
    if not messages:
        raise Refused("messages: at least one message is required")
    for index, message in enumerate(messages):
        for name in message.keys() - {"role", "content"}:
            raise Refused(f"messages.{index}.{name}: Extra inputs are not permitted")
        if message["role"] not in ("user", "assistant"):
            raise Refused(f'messages: Unexpected role "{message["role"]}".')
    if messages[0]["role"] != "user":
        raise Refused('messages: first message must use the "user" role')
    for before, after in pairwise(messages):
        if before["role"] == after["role"]:
            raise Refused(
                'messages: roles must alternate between "user" and "assistant", but found multiple '
                f'"{after["role"]}" roles in a row'
            )


def _check_blocks(index: int, message: dict[str, Any], *, last: bool) -> None:
    blocks = blocks_of(message["content"])
    if not blocks and not (last and message["role"] == "assistant"):
        raise Refused(
            "messages: all messages must have non-empty content except for the optional final "
            "assistant message"
        )
    for at, block in enumerate(blocks):
        _check_block(f"messages.{index}.content.{at}", block)
    ends_in_space = blocks and blocks[-1].get("text", "x") != blocks[-1].get("text", "x").rstrip()
    if last and message["role"] == "assistant" and ends_in_space:
        raise Refused("messages: final assistant content cannot end with trailing whitespace")


def _check_block(where: str, block: dict[str, Any]) -> None:
    kind = block.get("type", "")
    if kind not in BLOCK_FIELDS:
        raise Refused(
            f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
        )
    for name in block.keys() - BLOCK_FIELDS[kind]:
        raise Refused(f"{where}.{kind}.{name}: Extra inputs are not permitted")
    if kind == "text" and not block["text"]:
        raise Refused("messages: text content blocks must be non-empty")
    if kind == "text" and not block["text"].strip():
        raise Refused("messages: text content blocks must contain non-whitespace text")
    if kind == "tool_use" and not isinstance(block["input"], dict):
        raise Refused(f"{where}.tool_use.input: Input should be a valid dictionary")
    if kind == "tool_use" and not TOOL_ID.fullmatch(block["id"]):
        raise Refused(f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")


def _check_pairs(messages: list[dict[str, Any]]) -> None:
    """The message after tool_use blocks begins with their results, one each, and nothing else is answered."""
    open_ids: list[str] = []
    for index, message in enumerate([*messages, {"role": "user", "content": []}]):
        blocks = blocks_of(message["content"])
        at_front = [b["tool_use_id"] for b in _leading_results(blocks)]
        missing = [tool_id for tool_id in open_ids if tool_id not in at_front]
        if missing:
            raise Refused(
                f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks immediately "
                f"after: {', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` "
                "block in the next message."
            )
        for block in blocks:
            if block["type"] == "tool_result" and block["tool_use_id"] not in open_ids:
                raise Refused(
                    f"messages.{index}.content: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{block['tool_use_id']}. Each `tool_result` block must have a corresponding `tool_use` "
                    "block in the previous message."
                )
        if len(at_front) != len(set(at_front)):
            raise Refused("messages: each tool_use must have a single result")
        open_ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(open_ids) != len(set(open_ids)):
            raise Refused("messages: `tool_use` ids must be unique")


def _leading_results(blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for block in blocks:
        if block["type"] != "tool_result":
            return
        yield block


def _check_tools(body: dict[str, Any]) -> None:
    tools = body.get("tools", [])
    kinds = {block["type"] for message in body["messages"] for block in blocks_of(message["content"])}
    if not tools and kinds & {"tool_use", "tool_result"}:
        raise Refused("Requests which have tool_use or tool_result blocks in messages must define tools")
    if "tool_choice" in body and not tools:
        raise Refused("tool_choice: tools must be provided when tool_choice is set")
    for index, tool in enumerate(tools):
        if not TOOL_NAME.fullmatch(tool["name"]):
            raise Refused(
                f"tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            )
        if tool.get("type", "custom") == "custom" and tool.get("input_schema", {}).get("type") != "object":
            raise Refused(f"tools.{index}.custom.input_schema.type: Field required")
        for name in tool.keys() - {"type", "name", "description", "input_schema", "cache_control", "strict"}:
            raise Refused(f"tools.{index}.custom.{name}: Extra inputs are not permitted")


def _check_markers(body: dict[str, Any]) -> None:
    marked = [block for block in _all_blocks(body) if block.get("cache_control")]
    if len(marked) > MAX_MARKERS:
        raise Refused(
            f"A maximum of {MAX_MARKERS} blocks with cache_control may be provided. Found {len(marked)}."
        )
    shorter_seen = False
    for block in marked:
        marker = block["cache_control"]
        if marker.get("type") != "ephemeral" or marker.get("ttl", "5m") not in ("5m", "1h"):
            raise Refused("cache_control: Input should be {'type': 'ephemeral', 'ttl': '5m' or '1h'}")
        if marker.get("ttl") == "1h" and shorter_seen:
            raise Refused(
                "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note "
                "that blocks are processed in the following order: `tools`, `system`, `messages`."
            )
        shorter_seen = shorter_seen or marker.get("ttl", "5m") == "5m"


def _all_blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from body.get("tools", [])
    yield from blocks_of(body.get("system", []))
    for message in body["messages"]:
        yield from blocks_of(message["content"])
