"""A turn as it is seen in a chat, while it goes on.

- A `Scene` reads the events of a conversation and keeps on its `Stage` what should be visible, as blocks in order. It
  does not know when or how well that works.
- A `Block` is one thing to be shown: a text that grows (`Passage`), a file (`Parcel`), a question with buttons, or a
  small message that disappears again (`Fleeting`). It says which call is due when, and hears what came of it.
- The `Performer` makes the calls that are due, one at a time, and waits where waiting helps.
- In the `Ledger` blocks enter how far they have come; the performer writes it to the outbox before and after its calls.
  From there `restored` makes them again in the next process, whatever became of this one.
- A `Venue` is a place in a chat service, with the `Pace` the service allows there. All other seconds are in `Timing`.

Only the performer and the sign of writing talk to the service, and only the ledger to the store; everything else is
plain state and easy to reason about.
"""
