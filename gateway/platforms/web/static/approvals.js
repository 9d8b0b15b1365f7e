// Approvals: the buttons of a card, the reminder that leads to them, and the countdown.

export class Approvals {
  #log = document.querySelector("#log");
  #reminder = document.querySelector("#approval-reminder");

  constructor(decide) {
    this.#log.addEventListener("click", ({ target }) => {
      const choice = target.closest("[data-choice]")?.dataset.choice;
      if (choice) this.#press(target.closest(".approval"), choice, decide);
    });
    this.#reminder.addEventListener("click", () => this.#open()?.querySelector("[data-choice]").focus());
    setInterval(() => this.#tick(), 1_000);
  }

  /** Call after each change to the conversation. */
  refresh() {
    this.#reminder.hidden = !this.#open();
    this.#tick();
  }

  /** Sends the decision; the server then redraws the card in every tab. */
  async #press(card, choice, decide) {
    if (card.ariaBusy === "true") return;
    card.ariaBusy = "true";
    const said = await decide(card.dataset.approval, choice);
    if (said === null) card.ariaBusy = "false";
    else card.querySelector(".time-left").textContent = said;
  }

  #open() {
    return this.#log.querySelector(".approval[data-state=open]");
  }

  #tick() {
    for (const left of this.#log.querySelectorAll(".approval:not([aria-busy=true]) [data-expires]")) {
      left.textContent = timeLeft(Number(left.dataset.expires) - Date.now() / 1_000);
    }
  }
}

function timeLeft(seconds) {
  if (seconds <= 0) return "Expired";
  if (seconds < 60) return `${Math.ceil(seconds)} s left`;
  return `${Math.ceil(seconds / 60)} min left`;
}
