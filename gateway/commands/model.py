from __future__ import annotations

from agent.errors import ModelError, ModelNotAvailable
from agent.llm import LLMClient
from gateway.commands.registry import Command, CommandContext

_DEFAULT = "default"


async def _run(context: CommandContext, rest: str) -> str:
    models, conversation = context.agent.models, context.conversation
    if not rest:
        return await _shown(context)
    if not context.is_admin:
        return "Only an admin may switch the model."
    try:
        if rest == _DEFAULT:
            llm = await models.switch_back(context.store, conversation)
        else:
            llm = await models.switch(context.store, conversation, rest)
    except ModelNotAvailable as error:
        return f"The model was not switched: `{rest}` cannot be used here. {_first_line(error.detail)}"
    except ModelError as error:
        return f"The model was not switched. {_first_line(str(error))}"
    return (
        f"{_about(llm)} answers in this conversation from now on. {await _consequence(context, llm)}".strip()
    )


async def _shown(context: CommandContext) -> str:
    models = context.agent.models
    llm = await models.of(context.conversation)
    default = ", the default" if await models.is_default(context.conversation) else ""
    others = [name for name in models.choices if name != llm.model]
    lines = [f"{_about(llm)} answers in this conversation{default}."]
    if others:
        lines.append(f"Also set up: {', '.join(f'`{name}`' for name in others)}")
    if context.is_admin:
        lines.append(
            "/model NAME switches to another, which may be any litellm id whose provider's key is set; "
            f"/model {_DEFAULT} goes back to `{models.default_name}`."
        )
    return "\n".join(lines)


def _about(llm: LLMClient) -> str:
    tools = "" if llm.supports_tools else ", no tools"
    return f"`{llm.model}` (window {llm.context_length:,} tokens{tools})"


def _first_line(text: str) -> str:
    """Drop the advice for programmers that litellm adds."""
    return text.partition("\n")[0]


async def _consequence(context: CommandContext, llm: LLMClient) -> str:
    session = await context.store.session(context.conversation.live_session_id)
    if (session.prompt_tokens or 0) < llm.context_length:
        return ""
    return "Its window is smaller than this conversation, so older messages are summarised before it answers."


COMMAND = Command("model", "which model answers here; admins can switch it", _run, argument="name")
