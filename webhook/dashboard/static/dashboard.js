// Keeps a page as new as its server. Without it the page is the same, as of when it was loaded.
"use strict";

const PATIENCE = 12000; // milliseconds: two beats of the server, and some
const APART = 3000;
const main = document.getElementById("main");
const live = document.getElementById("live");
const follows = main.dataset.live; // "findings", "always", or "" for a page that stays as it is

let paused = false;
let waiting = false; // there is something new that is not shown yet
let lastShown = Date.now();
let losing;

const words = document.createElement("span");
const button = document.createElement("button");
button.type = "button";

function say(text, lost) {
  if (words.textContent !== text) words.textContent = text;
  live.classList.toggle("lost", Boolean(lost));
}

function name() {
  button.textContent = paused ? "Go on updating" : "Pause updates";
}

// Whoever reads or fills in something here must not lose their place.
function inUse() {
  const at = document.activeElement;
  const selected = document.getSelection();
  return (at && at !== main && main.contains(at)) || (selected && !selected.isCollapsed);
}

async function show() {
  if (paused || document.hidden || inUse() || Date.now() - lastShown < APART) {
    waiting = true;
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
    const open = [...main.querySelectorAll("details[open]")].length > 0;
    main.replaceChildren(...page.getElementById("main").childNodes);
    for (const one of open ? main.querySelectorAll("details") : []) one.open = true;
    document.title = page.title;
  } catch {
    waiting = true; // the stream tells that the server is gone
  }
}

function heard() {
  clearTimeout(losing);
  losing = setTimeout(lose, PATIENCE);
  if (!paused) say("Live: shows what is new by itself.");
}

function lose() {
  say("Connection lost: what is shown may be old. Trying again.", true);
}

if (follows) {
  live.replaceChildren(words, button);
  name();
  button.addEventListener("click", () => {
    paused = !paused;
    name();
    say(paused ? "Paused: what is shown may be old." : "Live: shows what is new by itself.");
    if (!paused && waiting) show();
  });
  const events = new EventSource("/events");
  events.addEventListener("turn", () => { heard(); show(); });
  events.addEventListener("beat", () => {
    heard();
    if (waiting || follows === "always") show();
  });
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) lose();
    clearTimeout(losing);
    losing = setTimeout(lose, 4000);
  });
  losing = setTimeout(lose, PATIENCE);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && waiting) show(); });
}
