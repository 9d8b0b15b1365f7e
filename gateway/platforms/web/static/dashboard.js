// Keeps an open page up to date and sends its buttons and forms. Reading works without this script.

const RECONNECT_MS = 2_000;
const REFUSED = "Hermes cannot update this page now. If many pages of Hermes are open, close some. Reconnecting …";

const statusLine = document.getElementById("status");

function tell(sentence, failed) {
  statusLine.textContent = sentence;
  statusLine.classList.toggle("failed", failed);
  statusLine.hidden = !sentence;
}

// A part with a focused field or selected text must not be replaced.
function isInUse(part) {
  const at = document.activeElement;
  return part.contains(at) && at.matches("input, select, textarea") || !document.getSelection().isCollapsed;
}

function follow(address) {
  const part = document.getElementById("live");
  let newest = null;
  function show() {
    if (newest === null || isInUse(part)) return;
    const open = new Set([...part.querySelectorAll("details[open][id]")].map((fold) => fold.id));
    const focused = document.activeElement?.id;
    part.innerHTML = newest;
    newest = null;
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    if (focused) document.getElementById(focused)?.focus();
  }
  function connect() {
    const source = new EventSource(address);
    source.onopen = () => statusLine.textContent === REFUSED && tell("", false);
    source.onmessage = (event) => {
      newest = JSON.parse(event.data).html;
      show();
    };
    source.onerror = () => {
      // An EventSource reconnects by itself after a lost connection, but not after a refused request.
      if (source.readyState !== EventSource.CLOSED) return;
      tell(REFUSED, true);
      setTimeout(connect, RECONNECT_MS);
    };
  }
  connect();
  // Each change is sent once, so a change that arrived while the part was in use is shown afterwards.
  for (const ends of ["selectionchange", "focusout"]) document.addEventListener(ends, show);
}

// <button data-post="/api/dashboard/..." data-body='{"key": "value"}' data-confirm="Sure?">, or a form with data-post.
// data-wait is shown while a slow request runs.
async function act(element, body) {
  const question = element.dataset.confirm;
  if (question && !window.confirm(question)) return;
  const buttons = element.matches("form") ? [...element.querySelectorAll("button")] : [element];
  buttons.forEach((button) => { button.disabled = true; });
  if (element.dataset.wait) tell(element.dataset.wait, false);
  try {
    const response = await fetch(element.dataset.post, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const answer = await response.json();
    tell(answer.said ?? answer.error ?? "", !response.ok);
    if (response.ok && answer.go) location.assign(answer.go);
  } catch {
    tell("Hermes cannot be reached. Is it running?", true);
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-post]");
  if (button) act(button, JSON.parse(button.dataset.body ?? "{}"));
});

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-post]");
  if (!form) return;
  event.preventDefault();
  act(form, Object.fromEntries(new FormData(form)));
});

if (document.body.dataset.live) follow(document.body.dataset.live);
