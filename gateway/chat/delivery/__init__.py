"""Delivery of a turn to a chat while it runs.

- `TurnView` turns the events of a conversation into messages and puts them into its `SendQueue`, in order. The
  queue executes the calls that are due, one at a time, and waits where the service asks for it.
- `DeliveryItem` is one thing to deliver: a text that grows (`TextMessage`), a file (`FileMessage`), a question with
  buttons (`ApprovalMessage`) or a message that disappears again (`TransientMessage`). It decides which call is due
  when, and reacts to the result.
- `OutboxTracker` saves the progress of the items before and after each call. The next process restores them from it.
- `ChatTarget` is a place in a chat service with its `RatePacer`. All other durations are in `Timing`.

Only `SendQueue` and `TypingIndicator` call the service, and only `OutboxTracker` calls the store; everything else is
plain state.
"""
