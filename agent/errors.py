"""Everything that can go wrong in the agent, as one tree. A docstring is the sentence a person reads.

HermesError
├── ModelError                 the provider did not give a complete answer
│   ├── ModelOverloaded        (transient)
│   ├── RateLimited            (transient, may carry retry_after)
│   ├── NetworkFailed          (transient)
│   ├── StreamCut              (transient, carries the text that arrived)
│   ├── AuthenticationFailed
│   │   └── KeyMissing          (no request was sent)
│   ├── QuotaExhausted
│   │   └── BudgetReached       (Hermes did not ask)
│   ├── ContextOverflow
│   ├── BadRequest
│   ├── EmptyAnswer
│   └── ModelNotAvailable
├── StoreError                 the store refused or could not do it
│   ├── NotFound
│   ├── HeadMoved
│   ├── StoreBusy
│   ├── StoreFull
│   ├── StoreReadOnly
│   ├── StoreCorrupt
│   ├── SearchIndexDamaged
│   └── NewerSchema
├── LeaseLost                  another process has taken over the conversation
├── UnknownTool                exit code 2: a tool is enabled that does not exist
├── EngineFailed               a context engine raised, hung or returned nonsense
├── InvalidCompaction          a context engine returned messages that every provider refuses
└── ToolError                  a tool says no; its text goes to the model
    └── SandboxNotAvailable
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.store import LearnedWindow


class HermesError(Exception):
    """Hermes could not do that."""

    exit_code = 1

    def __init__(self, detail: str = "") -> None:
        sentence = (type(self).__doc__ or "").strip()
        super().__init__(f"{sentence} {detail}".strip() if detail else sentence)
        self.detail = detail


class ModelError(HermesError):
    """The model did not answer."""

    transient = False
    may_cost = False
    """The provider may charge for the call."""


class ModelOverloaded(ModelError):
    """The model provider is overloaded or failing; try again in a moment."""

    transient = True


class RateLimited(ModelError):
    """The model provider limits how often it can be asked; try again later."""

    transient = True

    def __init__(self, detail: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class NetworkFailed(ModelError):
    """The model provider cannot be reached; check the network and `model.base_url`."""

    transient = True

    def __init__(self, detail: str = "", *, was_sent: bool = False) -> None:
        """`was_sent`: the request was sent, but no answer came."""
        super().__init__(detail)
        self.may_cost = was_sent


class StreamCut(ModelError):
    """The model's answer was cut off on the way."""

    transient = True
    may_cost = True

    def __init__(self, detail: str = "", *, partial_text: str = "") -> None:
        super().__init__(detail)
        self.partial_text = partial_text


class AuthenticationFailed(ModelError):
    """The model provider refused the key; check `model.api_key` or the provider's environment variable."""


class KeyMissing(AuthenticationFailed):
    """No key is set for this model:"""


class QuotaExhausted(ModelError):
    """The account at the model provider has no credit left."""


class BudgetReached(QuotaExhausted):
    """The daily budget is used up, so no model was asked."""


class ContextOverflow(ModelError):
    """The conversation no longer fits the model's context window; try /compress, or /reset for a new session."""

    def __init__(self, detail: str = "", *, limit: int | None = None) -> None:
        """`limit`: the window in tokens, if the provider names it."""
        super().__init__(detail)
        self.limit = limit
        self.model = ""
        """The model that refused."""
        self.context_length = 0
        """Its window, as far as it is known now."""
        self.learned: LearnedWindow | None = None
        """Set if the refusal showed that the window is smaller than believed."""


class BadRequest(ModelError):
    """The model provider did not accept the request."""

    def __init__(self, detail: str = "", *, unexplained: bool = False) -> None:
        """`unexplained`: the provider does not say what is wrong with it."""
        super().__init__(detail)
        self.unexplained = unexplained


class EmptyAnswer(ModelError):
    """The model answered with nothing at all; ask again, perhaps in other words."""


class ModelNotAvailable(ModelError):
    """This model cannot be used here; choose another with `hermes setup`."""


class StoreError(HermesError):
    """The store could not do that."""


class NotFound(StoreError):
    """There is nothing under that id."""


class HeadMoved(StoreError):
    """The conversation has moved on to another session since this one was read."""


class StoreBusy(StoreError):
    """Another program holds the database; close it and try again. Nothing stored was lost."""


class StoreUnreachable(StoreBusy):
    """The database cannot be reached; check that it runs. Nothing stored was lost."""


class StoreFull(StoreError):
    """The disk is full; free some space and send the message again. Nothing stored was lost."""


class StoreReadOnly(StoreError):
    """The database cannot be written; check its permissions and the disk."""


class StoreCorrupt(StoreError):
    """The database file is damaged; restore a backup with `hermes restore`, or move it aside to start again."""


class SearchIndexDamaged(StoreError):
    """The search index is damaged; `hermes doctor --repair` rebuilds it. Nothing that was said is lost."""


class NewerSchema(StoreError):
    """The database was written by a newer Hermes; upgrade Hermes to open it."""


class LeaseLost(HermesError):
    """Another process works on this conversation now, so nothing more is written here."""


class UnknownTool(HermesError):
    """A tool is enabled that does not exist; correct `tools` in the configuration."""

    exit_code = 2


class EngineFailed(HermesError):
    """The context engine failed; the conversation goes on, and the log says more."""

    def __init__(self, detail: str = "", *, method: str = "") -> None:
        """`method`: the member of the engine that failed."""
        super().__init__(detail)
        self.method = method


class InvalidCompaction(HermesError):
    """The context engine returned a history that no model would accept, so nothing was changed."""


class ToolError(HermesError):
    """The tool could not do that:"""


class SandboxNotAvailable(ToolError):
    """Commands run only in a sandbox, and none is available:"""
