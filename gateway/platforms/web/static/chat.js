// The chat page: one event stream in, JSON requests out.

import { Asking } from "./asking.js";
import { Composer, Waiting } from "./composer.js";
import { Log } from "./log.js";

const RECONNECT_MS = 2_000;
const HIDDEN_MS = 60_000; // then a hidden tab hangs up: browsers allow only six streams to one server
const REQUEST_MS = 30_000;
const LOST = "The connection to Hermes is lost. Trying again …";
const REFUSED = "Hermes cannot update this page now. If many of its pages are open, close some. Trying again …";

const page = document.body.dataset;
const trouble = document.querySelector("#trouble");
const log = new Log();
const waiting = new Waiting();
const composer = new Composer(send);
const asking = new Asking(decide);

let source = null;
let hangUp = 0;
const unsure = new Map(); // what was sent without an answer, and its key: sent again, it is the same message

// Updates and requests take turns: what the server says about a message is applied only after the answer to the request
// that sent it, so a message is never shown twice.
let inOrder = Promise.resolve();

function inTurn(work) {
  // One fault must not stop everything behind it.
  inOrder = inOrder.then(work).catch((error) => console.error(error));
}

function connect() {
  if (source || !page.conversation) return;
  source = new EventSource(`/c/${page.conversation}/live?limit=${page.limit}`);
  // A sentence about a message that could not be sent stays.
  source.onopen = () => [LOST, REFUSED].includes(trouble.textContent) && say("");
  source.onmessage = ({ data }) => {
    const update = JSON.parse(data);
    inTurn(() => apply(update));
  };
  source.onerror = () => {
    // A refused request ends an EventSource for good; a lost connection it mends by itself.
    const isRefused = source.readyState === EventSource.CLOSED;
    say(isRefused ? REFUSED : LOST);
    if (isRefused) {
      disconnect();
      setTimeout(connect, RECONNECT_MS);
    }
  };
}

function disconnect() {
  source?.close();
  source = null;
}

function apply(update) {
  if (update.op === "sidebar") return showSidebar(update);
  if (update.op === "waiting") return waiting.show(update);
  log.apply(update);
  asking.refresh();
  if (update.id) waiting.taken(update.id);
  if (update.op === "snapshot") waiting.dropShown(log);
}

function showSidebar({ html, title }) {
  const sidebar = document.querySelector("#sidebar");
  if (!sidebar.contains(document.activeElement)) sidebar.innerHTML = html;
  document.querySelector("#title").textContent = title;
  document.title = `${title} · Hermes`;
}

function send(text) {
  const item = waiting.add(text);
  log.toEnd();
  inTurn(async () => {
    const key = unsure.get(text) ?? newKey();
    try {
      if (!page.conversation) await begin();
      const { message_id, overtook } = await post(`/api/conversations/${page.conversation}/messages`, { text, key });
      if (overtook) log.asked(item);
      else if (log.has(message_id)) item.remove();
      else item.dataset.waiting = message_id;
      unsure.delete(text);
      say("");
    } catch (error) {
      unsure.set(text, key);
      item.remove();
      composer.giveBack(text);
      say(error.message);
    }
  });
}

/** The server's sentence, or null if it could not be asked. */
async function decide(approval, choice) {
  try {
    const { said } = await post(`/api/conversations/${page.conversation}/approvals/${approval}`, { choice });
    say("");
    return said;
  } catch (error) {
    say(error.message);
    return null;
  }
}

function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function begin() {
  const { id } = await post("/api/conversations", { platform: "web" });
  page.conversation = id;
  history.replaceState(null, "", `/c/${id}`);
  connect();
}

async function post(address, body) {
  let response;
  try {
    response = await fetch(address, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(REQUEST_MS),
    });
  } catch {
    throw new Error("Hermes cannot be reached. Send it again when it is back; it will not be taken twice.");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error ?? "Hermes could not do that; its log says more.");
  return answer;
}

function say(sentence) {
  trouble.textContent = sentence;
  trouble.hidden = !sentence;
}

document.querySelector("#stop").addEventListener("click", () => {
  post(`/api/conversations/${page.conversation}/stop`, {}).catch((error) => say(error.message));
});

document.addEventListener("click", async ({ target }) => {
  const button = target.closest(".copy");
  if (!button) return;
  await navigator.clipboard.writeText(button.closest(".code").querySelector("code").textContent);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1_500);
});

document.addEventListener("visibilitychange", () => {
  clearTimeout(hangUp);
  if (document.hidden) hangUp = setTimeout(disconnect, HIDDEN_MS);
  else connect();
});

log.toEnd();
connect();
