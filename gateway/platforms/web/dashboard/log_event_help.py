"""What the names of warnings and errors mean, for people who have not read the source."""

from __future__ import annotations

MEANINGS = {
    "budget.price_unknown": "A model has no known price, so the limits count an assumed one; see Spend.",
    "chat.flooded": "Somebody wrote faster than Hermes answers; what was too much was refused.",
    "chat.not_taken": "A message from a chat could not be taken in; the person was told.",
    "compression.summary_failed": "A summary could not be written; `hermes logs` says why.",
    "config.needs_restart": "The configuration was changed in keys that count only after a restart.",
    "config.refused": "The changed `hermes.yaml` has a mistake; what was set before stays. Run `hermes config check`.",
    "engine.fallback": "The context engine cannot be used, so the built-in one is; `hermes doctor` says why.",
    "gateway.job_crashed": "A job in the background broke down; it is a fault of Hermes.",
    "gateway.unreadable": "A stored message could not be read and was given up on; see Parked.",
    "lcm.summary_failed": "A summary could not be written; `hermes logs` says why.",
    "media.transcription_failed": "A voice message could not be turned into text.",
    "model.fallback": "A model did not answer, and the next of `model.fallbacks` did.",
    "pairing.wrong_code": "Somebody gave a wrong pairing code.",
    "platform.down": "A platform lost its connection; its card above says what to do.",
    "plugin.engine_hidden": "Two context engines have the same name; System shows which is in use.",
    "plugin.engine_refused": "A second context engine was registered; System shows which is in use.",
    "plugin.hook_skipped": "A plugin's hook was skipped; System names the hooks.",
    "store.index_failed": "What was said could not be put into the search index; run `hermes doctor`.",
    "store.waited_for": "The database was busy or the disk slow; Hermes waited for it.",
    "turn.failed": "A question could not be answered; the person was told why.",
    "turn.parked": "A question was given up on after several tries; see Parked.",
    "turn.waits_for_store": "An answer waits because the database cannot be written; is the disk full?",
    "web.failed": "A request of the web page failed; the page said why.",
}


def meaning(kind: str) -> str:
    """A sentence, with commands between backticks."""
    return MEANINGS.get(kind, "See `hermes logs --level warning`.")
