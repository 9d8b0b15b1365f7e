// The person's decision about a tool call: the buttons, the way to them, and the time that is left.

export class Asking {
  #log = document.querySelector("#log");
  #reminder = document.querySelector("#asks");

  constructor(decide) {
    this.#log.addEventListener("click", ({ target }) => {
      const choice = target.closest("[data-choice]")?.dataset.choice;
      if (choice) this.#press(target.closest(".approval"), choice, decide);
    });
    this.#reminder.addEventListener("click", () => this.#open()?.querySelector("[data-choice]").focus());
    setInterval(() => this.#tick(), 1_000);
  }

  /** After each change to the conversation. */
  refresh() {
    this.#reminder.hidden = !this.#open();
    this.#tick();
  }

  /** What comes of it is told to every tab by the server, which then redraws the card. */
  async #press(card, choice, decide) {
    if (card.ariaBusy === "true") return;
    card.ariaBusy = "true";
    const said = await decide(card.dataset.approval, choice);
    if (said === null) card.ariaBusy = "false";
    else card.querySelector(".left").textContent = said;
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
