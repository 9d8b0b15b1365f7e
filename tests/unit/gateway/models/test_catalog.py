"""What the catalog knows, from the table of the installed litellm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.models.catalog import (
    DEFAULT_WINDOW,
    OLLAMA_WINDOW,
    Prices,
    context_length_for,
    lookup,
    provider_of,
    provider_problem,
)

REPOSITORY = Path(__file__).parents[4]


def test_the_table_is_read_without_importing_litellm() -> None:
    """Importing litellm takes seconds; a look-up must not pay them."""
    script = (
        "import sys; from gateway.models.catalog import lookup; assert lookup('openai/gpt-4o'); "
        "sys.exit('litellm' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, check=True)


def test_a_model_is_known_with_its_window_tools_and_prices() -> None:
    """The facts of one well-known model, as its provider publishes them."""
    facts = lookup("anthropic/claude-haiku-4-5")
    assert facts is not None
    assert (facts.provider, facts.context_length, facts.supports_tools) == ("anthropic", 200_000, True)
    assert facts.prices == Prices(1e-06, 5e-06, cache_read=1e-07, cache_write=1.25e-06)


@pytest.mark.parametrize(
    "spelling",
    [
        "claude-haiku-4-5",
        "anthropic/claude-haiku-4-5",
        "openrouter/anthropic/claude-haiku-4-5",
        "openrouter/anthropic/claude-haiku-4.5",
        "openrouter/anthropic/claude-haiku-4.5:beta",
    ],
)
def test_every_usual_spelling_is_understood(spelling: str) -> None:
    """Bare, with its provider, and as OpenRouter spells it."""
    assert context_length_for(spelling) == 200_000


@pytest.mark.parametrize(
    ("model_id", "at_home"),
    [
        ("openrouter/google/gemini-2.5-pro", "gemini/gemini-2.5-pro"),
        ("openrouter/openai/gpt-4o", "gpt-4o"),
        ("bedrock/anthropic.claude-haiku-4-5-20251001-v1:0", "anthropic.claude-haiku-4-5-20251001-v1:0"),
        ("ollama_chat/llama3.1", "ollama/llama3.1"),
    ],
)
def test_a_model_is_found_where_it_is_at_home(model_id: str, at_home: str) -> None:
    """Routers and clouds name the same model differently."""
    found, expected = lookup(model_id), lookup(at_home)
    assert found and expected
    assert (found.context_length, found.supports_tools) == (expected.context_length, expected.supports_tools)


def test_a_resold_model_has_no_known_price() -> None:
    """OpenRouter sets its own prices, and a wrong price is worse than none."""
    resold = lookup("openrouter/openai/gpt-4o")
    assert resold is not None
    assert (resold.provider, resold.prices) == ("openrouter", None)


@pytest.mark.parametrize("model_id", ["openai/claude-haiku-4-5", "ollama/deepseek-chat", "groq/gpt-4o"])
def test_a_name_belongs_to_its_provider(model_id: str) -> None:
    """A model of the same name at another provider is another model."""
    assert lookup(model_id) is None


@pytest.mark.parametrize("model_id", ["", "/", "openrouter/", "nobody/knows-this", "text-embedding-3-small"])
def test_what_is_no_chat_model_is_not_found(model_id: str) -> None:
    """Nonsense, strangers and models that do not chat."""
    assert lookup(model_id) is None


def test_the_configured_window_wins() -> None:
    """Over the table, and over every guess."""
    for model_id in ("openai/gpt-4o", "ollama/llama3.1", "nobody/knows-this"):
        assert context_length_for(model_id, 12_345) == 12_345


def test_windows_that_nobody_states_are_guessed_with_care() -> None:
    """Strangers get the documented default; Ollama gets what it serves, not what the model could do."""
    assert context_length_for("openai/my-own-finetune") == DEFAULT_WINDOW == 32_768
    assert context_length_for("ollama/llama3.1") == OLLAMA_WINDOW == 4_096
    assert context_length_for("ollama/gpt-oss:120b-cloud") == 131_072


def test_the_embedded_model_is_in_the_catalog() -> None:
    """With its real window, without tools, for free."""
    facts = lookup("embedded/smollm2")
    assert facts is not None
    assert (facts.context_length, facts.supports_tools, facts.prices) == (8192, False, Prices(0.0, 0.0))


@pytest.mark.parametrize(
    ("model_id", "provider"),
    [
        ("anthropic/claude-haiku-4-5", "anthropic"),
        ("claude-haiku-4-5", "anthropic"),
        ("openrouter/openai/gpt-4o", "openrouter"),
        ("hosted_vllm/anything", "hosted_vllm"),
        ("embedded/smollm2", "embedded"),
        ("meta-llama/Llama-3.1-8B", None),
        ("llama3.2", None),
    ],
)
def test_the_provider_of_an_id(model_id: str, provider: str | None) -> None:
    """A prefix that is a provider, or the provider the table knows for a bare name."""
    assert provider_of(model_id) == provider


@pytest.mark.parametrize(
    ("model_id", "problem"),
    [
        ("anthropic/claude-x", ""),
        ("nous/hermes-4", ""),
        ("vertex_ai_beta/gemini-x", ""),
        ("bare-name", ""),
        ("antropic/claude-x", "There is no provider `antropic`. Did you mean `anthropic/claude-x`?"),
        ("fast/claude-x", "There is no provider `fast`."),
    ],
)
def test_a_provider_that_litellm_cannot_call_is_a_problem(model_id: str, problem: str) -> None:
    """litellm's tables and then litellm itself decide."""
    found = provider_problem(model_id)
    assert found.startswith(problem) and bool(found) == bool(problem)
