// The chat page: one event stream in, JSON requests out.

import { Approvals } from "./approvals.js";
import { Composer, Queue } from "./composer.js";
import { Log } from "./log.js";

const RECONNECT_MS = 2_000;
const HIDDEN_MS = 60_000; // a hidden tab disconnects after this: browsers allow only six streams per server
const REQUEST_MS = 30_000;
const LOST = "Connection to Hermes lost. Reconnecting …";
const REFUSED = "Hermes cannot update this page now. If many pages of Hermes are open, close some. Reconnecting …";

const page = document.body.dataset;
const errorLine = document.querySelector("#error");
const log = new Log();
const queue = new Queue();
const composer = new Composer(send);
const approvals = new Approvals(decide);

let source = null;
let disconnectTimer = 0;
const unconfirmed = new Map(); // texts sent without a response, with their keys: the key deduplicates a second attempt

// Updates and requests run one after another: an update about a message is applied after the response to the request
// that sent it, so no message is shown twice.
let lastWork = Promise.resolve();

function enqueue(work) {
  // An error must not stop the work queued behind it.
  lastWork = lastWork.then(work).catch((error) => console.error(error));
}

function connect() {
  if (source || !page.conversation) return;
  source = new EventSource(`/c/${page.conversation}/live?limit=${page.limit}`);
  // An error about a message that could not be sent stays.
  source.onopen = () => [LOST, REFUSED].includes(errorLine.textContent) && say("");
  source.onmessage = ({ data }) => {
    const update = JSON.parse(data);
    enqueue(() => apply(update));
  };
  source.onerror = () => {
    // An EventSource reconnects by itself after a lost connection, but not after a refused request.
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
  if (update.op === "queued") return queue.show(update);
  log.apply(update);
  approvals.refresh();
  if (update.id) queue.remove(update.id);
  if (update.op === "snapshot") queue.removeShown(log);
}

function showSidebar({ html, title }) {
  const sidebar = document.querySelector("#sidebar");
  if (!sidebar.contains(document.activeElement)) sidebar.innerHTML = html;
  document.querySelector("#title").textContent = title;
  document.title = `${title} · Hermes`;
}

function send(text) {
  const item = queue.add(text);
  log.toEnd();
  enqueue(async () => {
    const key = unconfirmed.get(text) ?? newKey();
    try {
      if (!page.conversation) await begin();
      const { message_id, overtook } = await post(`/api/conversations/${page.conversation}/messages`, { text, key });
      if (overtook) log.showCommand(item);
      else if (log.has(message_id)) item.remove();
      else item.dataset.queued = message_id;
      unconfirmed.delete(text);
      say("");
    } catch (error) {
      unconfirmed.set(text, key);
      item.remove();
      composer.restore(text);
      say(error.message);
    }
  });
}

/** Returns the sentence of the server, or null if the request failed. */
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
    throw new Error("Hermes cannot be reached. Send the message again later; it will not be duplicated.");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error ?? "Hermes could not do that; see its log.");
  return answer;
}

function say(sentence) {
  errorLine.textContent = sentence;
  errorLine.hidden = !sentence;
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
  clearTimeout(disconnectTimer);
  if (document.hidden) disconnectTimer = setTimeout(disconnect, HIDDEN_MS);
  else connect();
});

log.toEnd();
connect();
