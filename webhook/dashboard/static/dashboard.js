// Updates a page live. Without JavaScript the page shows its state at load time.
"use strict";

const PATIENCE = 12000; // milliseconds: more than two beats of the server
const LOST = 4000; // a shorter interruption is not reported
const main = document.getElementById("main");
const live = document.getElementById("live");
const follows = main.dataset.live; // "findings", "always", or "" for a page that stays as it is
const APART = follows === "always" ? 9000 : 3000; // milliseconds between two updates

let paused = false;
let waiting = false; // new data is not shown yet
let lastShown = Date.now();
let failing = false;
let losing;
let open = "Live.";

const words = document.createElement("span");
const button = document.createElement("button");
button.type = "button";

function say(text, lost) {
  if (words.textContent !== text) words.textContent = text;
  live.classList.toggle("lost", Boolean(lost));
}

function name() {
  button.textContent = paused ? "Resume updates" : "Pause updates";
}

// Do not replace the page while the user selects text or fills in a form.
function inUse() {
  const at = document.activeElement;
  const selected = document.getSelection();
  return (at && at !== main && main.contains(at)) || (selected && !selected.isCollapsed);
}

async function show() {
  if (paused || document.hidden || inUse() || Date.now() - lastShown < APART) {
    waiting = true;
    if (inUse() && !paused) say("New data is available. It is shown when you leave this field or selection.");
    return;
  }
  waiting = false;
  lastShown = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (inUse()) {
      waiting = true;
      return;
    }
    const unfolded = main.querySelector("details[open]");
    main.replaceChildren(...page.getElementById("main").childNodes);
    for (const one of unfolded ? main.querySelectorAll("details") : []) one.open = true;
    offerCopies();
    document.title = page.title;
    say(open);
  } catch {
    waiting = true; // the event stream reports a lost server
  }
}

// Changed only if the text differs: a screen reader repeats every change.
function heard(event) {
  const counts = Object.entries(JSON.parse(event.data)).map(([name, count]) => `${count} ${name}`);
  open = counts.length ? `Live. Open findings: ${counts.join(", ")}.` : "Live. No open finding.";
  clearTimeout(losing);
  failing = false;
  losing = setTimeout(lose, PATIENCE);
  if (!paused && !waiting) say(open);
}

function lose() {
  say("Connection lost: this page may be out of date. Reconnecting.", true);
}

// Buttons are hidden without JavaScript: there they could do nothing.
function offerCopies() {
  for (const one of main.querySelectorAll(".copy")) one.hidden = false;
}

// Browsers give a page the clipboard on HTTPS and localhost only. Elsewhere the text is selected.
async function copy(from) {
  const text = from.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(text.textContent);
    from.textContent = "Copied";
  } catch {
    document.getSelection().selectAllChildren(text);
    from.textContent = "Selected: press Ctrl+C";
  }
}

main.addEventListener("click", (event) => {
  const from = event.target.closest(".copy");
  if (from) copy(from);
});
offerCopies();

if (follows) {
  live.replaceChildren(words, button);
  name();
  button.addEventListener("click", () => {
    paused = !paused;
    name();
    say(paused ? "Paused: this page may be out of date." : open);
    if (!paused && waiting) show();
  });
  main.addEventListener("focusout", () => { if (waiting) setTimeout(show, 0); });
  const events = new EventSource("/events");
  events.addEventListener("turn", (event) => { heard(event); show(); });
  events.addEventListener("beat", (event) => {
    heard(event);
    if (waiting || follows === "always") show();
  });
  events.addEventListener("error", () => {
    if (failing) return; // every retry reports the same error
    failing = true;
    clearTimeout(losing);
    losing = setTimeout(lose, events.readyState === EventSource.CLOSED ? 0 : LOST);
  });
  losing = setTimeout(lose, PATIENCE);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && waiting) show(); });
}
