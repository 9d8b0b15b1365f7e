"""The rough token estimate against real tokenizers."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.tokens import (
    IMAGE_TOKENS,
    estimate_message_tokens,
    estimate_messages_tokens_rough,
    estimate_text_tokens,
    estimate_tools_tokens,
)
from tests.support.histories import calls, user

ENGLISH = """
Thank you for getting back to me so quickly. I had a look at the two options, and I think the earlier train would suit
us better, although it is a little more expensive. Could you check whether there are still seats next to each other,
preferably by the window? We will have two suitcases and a folded pram with us. If that is not possible, please let me
know what else you would suggest, and I will talk it over with my sister tonight."""
CHINESE = """
你好，我想预订下周三从上海到北京的航班，最好是早上出发。请问还有靠窗的座位吗？如果没有的话，靠过道也可以。
我的预算大概是八百元左右，不需要托运行李。另外，请帮我查一下退票和改签的规定，谢谢！
昨天我和朋友去公园散步，看到很多花都开了，心情特别好。"""
JAPANESE = """
こんにちは。来週の水曜日に東京から大阪へ行く新幹線を予約したいのですが、午前中に出発する便はありますか？
できれば窓側の席がいいです。予算は一万五千円くらいで、荷物は小さいスーツケースが一つだけです。
キャンセルの規定についても教えていただけると助かります。"""
JSON = json.dumps(
    [
        {
            "id": f"order_{n}",
            "total": 17.5 * n,
            "state": "sent",
            "items": [{"sku": f"A-{n}", "count": n}],
            "gift": False,
        }
        for n in range(12)
    ]
)
CODE = Path(importlib.util.find_spec("argparse").origin).read_text(encoding="utf-8")[:20_000]  # type: ignore[union-attr,arg-type]


@pytest.fixture(scope="module", params=["cl100k_base", "o200k_base", "claude"])
def count(request: pytest.FixtureRequest) -> Callable[[str], int]:
    """A real tokenizer, from the files that litellm brings along."""
    found = importlib.util.find_spec("litellm")
    assert found is not None and found.origin is not None
    folder = Path(found.origin).parent / "litellm_core_utils" / "tokenizers"
    if request.param == "claude":
        from tokenizers import Tokenizer

        claude = Tokenizer.from_file(str(folder / "anthropic_tokenizer.json"))
        return lambda text: len(claude.encode(text).ids)
    patch = pytest.MonkeyPatch()
    patch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
    import tiktoken

    encoding = tiktoken.get_encoding(request.param)
    patch.undo()
    return lambda text: len(encoding.encode(text))


@pytest.mark.parametrize(
    "text", [ENGLISH, CODE, JSON, CHINESE, JAPANESE], ids=["en", "code", "json", "zh", "ja"]
)
def test_the_estimate_is_within_30_percent_of_a_tokenizer(text: str, count: Callable[[str], int]) -> None:
    """Prose, code, JSON, Chinese and Japanese, by three tokenizers."""
    assert 0.7 <= estimate_text_tokens(text) / count(text) <= 1.3


def test_chinese_is_not_undercounted_like_english() -> None:
    """Four characters to a token would be wrong by a factor of three or more."""
    assert estimate_text_tokens(CHINESE) > 2.5 * len(CHINESE) / 4


def test_tool_calls_are_counted() -> None:
    """Arguments are prompt tokens like any other text."""
    plain = estimate_message_tokens({"role": "assistant", "content": None})
    assert estimate_message_tokens(calls(("write_file", '{"text": "' + "word " * 400 + '"}'))) > plain + 400


def test_tool_definitions_are_counted() -> None:
    """Schemas go with every request."""
    schema = {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What to look for. " * 40}},
    }
    tool = {
        "type": "function",
        "function": {"name": "search", "description": "Search.", "parameters": schema},
    }
    assert estimate_tools_tokens([tool]) > 150
    assert estimate_tools_tokens([tool, tool]) == 2 * estimate_tools_tokens([tool])


def test_an_image_costs_the_same_whatever_its_bytes() -> None:
    """Base64 is not text."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    message = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, picture]}
    assert IMAGE_TOKENS < estimate_message_tokens(message) < IMAGE_TOKENS + 20


def test_a_history_is_the_sum_of_its_messages() -> None:
    """Counting at write time and adding up later gives the same number."""
    messages = [user("hello"), calls(("a", "{}")), user("你好" * 30)]
    assert estimate_messages_tokens_rough(messages) == sum(map(estimate_message_tokens, messages))


def test_broken_text_is_counted_too() -> None:
    """A lone surrogate, as it comes from a platform's half an emoji, has no UTF-8 form."""
    assert estimate_text_tokens("broken \ud83d text") > 0


def test_ten_thousand_messages_are_counted_in_a_moment() -> None:
    """Far above the aim of 5 ms, so that a busy machine does not fail it; a tokenizer would take seconds."""
    messages = [user(f"Message {n} of a long history, with a few words in it.") for n in range(10_000)]
    began = time.process_time()
    estimate_messages_tokens_rough(messages)
    assert time.process_time() - began < 0.05
