"""Requests that OpenAI refuses, with its error texts."""

from __future__ import annotations

import re
from typing import Any

from tests.fakes.model_server import Refused

KNOWN_FIELDS = {
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "n",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "response_format",
    "seed",
    "user",
    "service_tier",
    "store",
    "metadata",
    "reasoning_effort",
    "modalities",
    "prediction",
    "verbosity",
    "prompt_cache_key",
    "safety_identifier",
    "function_call",
    "functions",
    "audio",
    "web_search_options",
}
MESSAGE_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "refusal", "audio", "function_call"},
    "tool": {"role", "content", "tool_call_id"},
}
PART_TYPES = {"user": {"text", "image_url", "input_audio", "file"}, "assistant": {"text", "refusal"}}
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SPEAKER_NAME = re.compile(r"[^\s<|\\/>]{1,64}")


def check_request(body: dict[str, Any], *, accepts_cache_control: bool) -> None:
    for name in body:
        if name not in KNOWN_FIELDS:
            raise Refused(f"Unrecognized request argument supplied: {name}")
    if not isinstance(body.get("model"), str):
        raise Refused("you must provide a model parameter")
    if not body.get("messages"):
        raise Refused(
            "Invalid 'messages': empty array. Expected an array with minimum length 1.", code="empty_array"
        )
    _check_options(body)
    _check_tools(body)
    for index, message in enumerate(body["messages"]):
        _check_message(f"messages[{index}]", message, accepts_cache_control)
    _check_pairs(body["messages"])


def _check_options(body: dict[str, Any]) -> None:
    if "stream_options" in body and not body.get("stream"):
        raise Refused("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
    for name in ("max_tokens", "max_completion_tokens"):
        if name in body and body[name] < 1:
            raise Refused(f"Invalid '{name}': integer below minimum value. Expected a value >= 1.")
    if not 0 <= body.get("temperature", 1) <= 2:
        raise Refused("Invalid 'temperature': decimal out of range. Expected a value between 0 and 2.")


def _check_tools(body: dict[str, Any]) -> None:
    if "tools" not in body:
        for name in ("tool_choice", "parallel_tool_calls"):
            if name in body:
                raise Refused(
                    f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
                )
        return
    if not body["tools"]:
        raise Refused(
            "Invalid 'tools': empty array. Expected an array with minimum length 1.", code="empty_array"
        )
    for index, tool in enumerate(body["tools"]):
        if tool.get("type") != "function" or "name" not in tool.get("function", {}):
            raise Refused(f"Missing required parameter: 'tools[{index}].function.name'.")
        if not TOOL_NAME.fullmatch(tool["function"]["name"]):
            raise Refused(f"Invalid 'tools[{index}].function.name': string does not match pattern.")


def _check_message(where: str, message: dict[str, Any], accepts_cache_control: bool) -> None:
    role = message.get("role")
    if role not in MESSAGE_FIELDS:
        raise Refused(
            f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user' and 'tool'."
        )
    extra = {"cache_control"} if accepts_cache_control else set()
    for name in message.keys() - MESSAGE_FIELDS[role] - extra:
        raise Refused(f"Unknown parameter: '{where}.{name}'.", code="unknown_parameter")
    if message.get("content") is None and not message.get("tool_calls"):
        raise Refused(f"Invalid value for 'content': expected a string, got null. ({where})")
    if "name" in message and not SPEAKER_NAME.fullmatch(message["name"]):
        raise Refused(f"Invalid '{where}.name': string does not match pattern. Expected '^[^\\s<|\\\\/>]+$'.")
    if isinstance(message.get("content"), list):
        _check_parts(
            where, role, message["content"], {"type", "text", "image_url", "input_audio", "file"} | extra
        )
    for call in message.get("tool_calls", ()):
        if not isinstance(call.get("function", {}).get("arguments"), str) or not call.get("id"):
            raise Refused(f"Missing required parameter: '{where}.tool_calls[].function.arguments'.")


def _check_parts(where: str, role: str, parts: list[dict[str, Any]], known: set[str]) -> None:
    if not parts:
        raise Refused(f"Invalid '{where}.content': empty array. Expected an array with minimum length 1.")
    for index, part in enumerate(parts):
        if part.get("type") not in PART_TYPES.get(role, {"text"}):
            raise Refused(f"Invalid value: '{part.get('type')}'. ({where}.content[{index}].type)")
        for name in part.keys() - known:
            raise Refused(f"Unknown parameter: '{where}.content[{index}].{name}'.", code="unknown_parameter")


def _check_pairs(messages: list[dict[str, Any]]) -> None:
    """Each tool call needs exactly one result before the next message."""
    open_ids: list[str] = []
    for message in [*messages, {"role": "end"}]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_ids:
                raise Refused(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
                    "with 'tool_calls'."
                )
            open_ids.remove(message["tool_call_id"])
            continue
        if open_ids:
            raise Refused(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                "'tool_call_id'. The following tool_call_ids did not have response messages: "
                f"{', '.join(open_ids)}"
            )
        open_ids = [call["id"] for call in message.get("tool_calls", ())]
