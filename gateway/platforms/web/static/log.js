// Inserts the HTML that the server rendered and escaped; this script never builds HTML from text.

/** Scrolls to the end of the conversation unless the person has scrolled up. */
class Reader {
  #scroller;
  #atEnd = true;

  constructor(scroller, content) {
    this.#scroller = scroller;
    scroller.addEventListener("scroll", () => {
      this.#atEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 64;
    }, { passive: true });
    const sizes = new ResizeObserver(() => this.#atEnd && this.toEnd());
    sizes.observe(scroller);
    sizes.observe(content);
  }

  toEnd() {
    this.#atEnd = true;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }
}

/** The conversation on the page. `#operations` are the updates that the server sends. */
export class Log {
  running = false;
  #log = document.querySelector("#log");
  #working = document.querySelector("#working");
  #stop = document.querySelector("#stop");
  #writing = null;
  #reader = new Reader(document.querySelector("#scroller"), document.querySelector(".column"));

  #operations = {
    snapshot: ({ html }) => this.#keepingFolds(() => { this.#log.innerHTML = html; }),
    // Starts a turn, or redraws one that is shown.
    start_turn: ({ id, html }) => this.#keepingFolds(() => { this.#cutFrom(id); this.#append(html); this.running = true; }),
    append: ({ html }) => this.#append(html),
    // Adds a notice in front of the answer being written.
    notice: ({ html }) => this.#writing ? this.#writing.insertAdjacentHTML("beforebegin", html) : this.#append(html),
    append_text: ({ text }) => this.#appendText(text),
    // Replaces the complete paragraphs of the answer being written by their rendered form.
    render_text: ({ html, rest }) => this.#renderText(html, rest),
    finish_text: ({ html }) => this.#finishText(html),
    replace_tool: ({ id, html }) => this.#keepingFolds(() => this.#calls(id).at(-1)?.replaceWith(element(html))),
    replace_approval: ({ id, html }) => this.#replaceApproval(id, html),
    end_turn: () => { this.running = false; },
  };

  apply(update) {
    if (update.op === "snapshot" || update.op === "start_turn") this.#writing = null;
    if (update.op === "snapshot") this.running = false;
    this.#operations[update.op](update);
    this.#log.ariaBusy = String(this.running);
    this.#stop.hidden = !this.running;
    this.#working.hidden = !this.running || this.#writing !== null || this.#log.querySelector("[data-state=running]");
  }

  has(messageId) {
    return this.#message(messageId) !== undefined;
  }

  toEnd() {
    this.#reader.toEnd();
  }

  /** Shows a command that ran at once in front of its own answer. */
  showCommand(item) {
    item.classList.remove("queued");
    item.querySelector(".label")?.remove();
    if (this.#writing) this.#writing.before(item);
    else this.#log.append(item);
  }

  #append(html) {
    this.#log.insertAdjacentHTML("beforeend", html);
  }

  /** Appends streamed text; the end of an unfinished answer is plain text. */
  #appendText(text) {
    this.#open().lastChild.append(text);
  }

  #renderText(html, rest) {
    const [rendered, plain] = this.#open().children;
    rendered.innerHTML = html;
    plain.textContent = rest;
  }

  #open() {
    if (this.#writing === null) {
      this.#writing = element('<article class="answer writing"><div class="rendered"></div><div class="plain"></div></article>');
      this.#log.append(this.#writing);
    }
    return this.#writing;
  }

  #finishText(html) {
    if (this.#writing) this.#writing.outerHTML = html;
    else this.#append(html);
    this.#writing = null;
  }

  /** Redraws a card and keeps the keyboard focus on it. */
  #replaceApproval(id, html) {
    const card = [...this.#log.querySelectorAll("[data-approval]")].find((each) => each.dataset.approval === id);
    const wasHere = card?.contains(document.activeElement);
    const decided = element(html);
    card?.replaceWith(decided);
    if (wasHere) decided.focus();
  }

  #cutFrom(messageId) {
    const known = this.#message(messageId);
    while (known && this.#log.lastChild !== known) this.#log.lastChild.remove();
    known?.remove();
  }

  #message(id) {
    return [...this.#log.querySelectorAll("[data-message]")].find((each) => each.dataset.message === id);
  }

  #calls(id) {
    return [...this.#log.querySelectorAll("[data-call]")].filter((each) => each.dataset.call === id);
  }

  /** Redraws and keeps unfolded tool calls unfolded. */
  #keepingFolds(redraw) {
    const open = [...this.#log.querySelectorAll(".tool[open]")].map((each) => each.dataset.call);
    redraw();
    for (const id of open) for (const each of this.#calls(id)) each.open = true;
  }
}

export function element(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}
