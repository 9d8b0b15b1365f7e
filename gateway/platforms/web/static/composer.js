// The message field, and the messages that were sent but are still queued.

import { element } from "./log.js";

export class Composer {
  #field = document.querySelector("#text");

  constructor(onSend) {
    const form = document.querySelector("#composer");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = this.#field.value;
      if (!text.trim()) return;
      this.#set("");
      onSend(text);
    });
    this.#field.addEventListener("keydown", (event) => {
      // While an input method composes a character, Enter belongs to it.
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        form.requestSubmit();
      }
    });
    this.#field.addEventListener("input", () => this.#fit());
    // On a phone the focus would open the keyboard over the conversation.
    if (matchMedia("(hover: hover)").matches) this.#field.focus();
    this.#fit();
  }

  /** Puts a text that could not be sent back in front of newer input. */
  restore(text) {
    this.#set(this.#field.value ? `${text}\n${this.#field.value}` : text);
    this.#field.focus();
  }

  #set(text) {
    this.#field.value = text;
    this.#fit();
  }

  #fit() {
    this.#field.style.height = "auto";
    this.#field.style.height = `${this.#field.scrollHeight}px`;
  }
}

export class Queue {
  #list = document.querySelector("#queue");

  /** Shows a message before the server has accepted it. */
  add(text) {
    const item = document.createElement("article");
    const bubble = document.createElement("div");
    const note = document.createElement("p");
    item.className = "user-message queued";
    bubble.className = "bubble";
    bubble.textContent = text;
    note.className = "label";
    item.append(bubble, note);
    this.#list.append(item);
    return item;
  }

  /** Shows a queued message, which may come from another tab. */
  show({ id, html }) {
    const [known] = this.#of(id);
    if (known) known.replaceWith(element(html));
    else this.#list.append(element(html));
  }

  remove(messageId) {
    this.#of(messageId).forEach((item) => item.remove());
  }

  /** Removes messages that the conversation shows after a reconnect. */
  removeShown(log) {
    this.#find((item) => log.has(item.dataset.queued)).forEach((item) => item.remove());
  }

  #of(messageId) {
    return this.#find((item) => item.dataset.queued === messageId);
  }

  #find(wanted) {
    return [...this.#list.children].filter(wanted);
  }
}
